package imports_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pauses names the test files in which time passes outside a synctest bubble as far as the source shows, how often, and
// why an event cannot take its place.
var pauses = map[string]struct {
	n   int
	why string
}{
	"admin/lock_test.go":                                {1, "nothing tells that an executor returned a message"},
	"cmd/toolbus/main_test.go":                          {1, "a tool that takes the time of its input"},
	"internal/auth/tokensource/backoff_test.go":         {2, "the pauses of office.at, which bubbles call"},
	"internal/cli/signal_test.go":                       {1, "a process that does not end"},
	"internal/client/chunks_test.go":                    {1, "a steady flood of two seconds"},
	"internal/client/silent_test.go":                    {1, "a request that no server subscribes to has no event"},
	"internal/dispatcher/dispatcher_test.go":            {2, "pass and a slow log, which bubbles call"},
	"internal/executor/executor_test.go":                {1, "pass, which bubbles call"},
	"internal/executor/executorapi/executorapi_test.go": {1, "the server forgets ids by its clock"},
	"internal/executor/heartbeat/alive_test.go":         {1, "the age of a heartbeat by the clock of the server"},
	"internal/executor/workqueue/delivery_test.go":      {3, "polls of consumers, and proof that nothing more comes"},
	"internal/executor/workqueue/work_test.go":          {1, "a handler that takes its time"},
	"internal/health/health_test.go":                    {1, "the age of a heartbeat by the clock of the server"},
	"internal/natsserver/natsserver_test.go":            {1, "the limit of log lines by the clock of the server"},
	"internal/tool/mcp/oauth/keeper_test.go":            {1, "pass, which bubbles call"},
	"kv/fold_test.go":                                   {1, "a poll of messages that the server expires"},
	"kv/follower_test.go":                               {3, "polls of a lag, and of consumers of the server"},
	"kv/followerlag_test.go":                            {3, "polls of a lag, and a server that is away"},
	"kv/log_test.go":                                    {1, "a poll of messages that the server expires"},
	"retained_test.go":                                  {1, "a poll of a consumer of the server"},
	"streaming/reader_test.go":                          {6, "frames that come late"},
	"test/attack/turns_test.go":                         {2, "polls of heartbeats, at which dispatchers look each second"},
	"test/blackbox/audit_test.go":                       {3, "polls of calls, and the gauge of a second"},
	"test/blackbox/busy_test.go":                        {1, "a tool that takes its time"},
	"test/blackbox/lost_test.go":                        {1, "a server that is away"},
	"test/blackbox/overflow_test.go":                    {1, "the age of an event by the clock of the server"},
	"test/blackbox/renewal_test.go":                     {1, "a refusal of which the client tells nobody"},
	"test/clock/clock_test.go":                          {1, "load before and after a clock is set"},
	"test/clock/jitter_test.go":                         {1, "a network with a delay"},
	"test/pause/tree_linux_test.go":                     {1, "a poll of another process"},
}

// TestNoSleeps fails where a test calls time.Sleep, or lets time pass by a bare <-time.After outside a synctest bubble:
// a busy machine needs longer, and an idle one waits for nothing. Wait for an event instead.
func TestNoSleeps(t *testing.T) {
	found := map[string]int{}
	for name := range strings.FieldsSeq(git(t, "ls-files", "--cached", "--others", "--exclude-standard", "*_test.go")) {
		text, err := os.ReadFile(filepath.Join("../..", name))
		if os.IsNotExist(err) { // deleted, and not committed yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.PreorderStack(file, nil, func(n ast.Node, stack []ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if calls(n, "time", "Sleep") {
					t.Errorf("%s: a test sleeps", set.Position(n.Pos()))
				}
			case *ast.ExprStmt:
				if wait, ok := n.X.(*ast.UnaryExpr); ok && wait.Op == token.ARROW {
					call, ok := wait.X.(*ast.CallExpr)
					if _, selected := stack[len(stack)-1].(*ast.CommClause); ok && !selected && calls(call, "time", "After") &&
						!inBubble(stack) {
						found[name]++
					}
				}
			}
			return true
		})
		if found[name] > pauses[name].n {
			t.Errorf("%s lets time pass %d times outside bubbles, %d are allowed: wait for an event", name, found[name],
				pauses[name].n)
		}
	}
	for name, p := range pauses {
		if found[name] < p.n {
			t.Errorf("%s lets time pass %d times, and %d are allowed: lower the number", name, found[name], p.n)
		}
	}
}

// calls reports whether c calls the function name of package pkg.
func calls(c *ast.CallExpr, pkg, name string) bool {
	s, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// inBubble reports whether a call of synctest.Test, or of a function bubble that calls it, is on the stack.
func inBubble(stack []ast.Node) bool {
	for _, n := range stack {
		if c, ok := n.(*ast.CallExpr); ok {
			if f, ok := c.Fun.(*ast.Ident); calls(c, "synctest", "Test") || ok && f.Name == "bubble" {
				return true
			}
		}
	}
	return false
}
