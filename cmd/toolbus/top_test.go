package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// topTools are a tool that answers, and one that waits, one call at a time.
func topTools(t *testing.T) *toolbus.Toolset {
	t.Helper()
	tools := toolbus.NewToolset()
	err := toolbus.Add(tools, toolbus.Tool{ID: "hello", Class: toolbus.Pure},
		func(context.Context, *toolbus.Run, struct{}) (string, error) { return "hello", nil })
	if err != nil {
		t.Fatal(err)
	}
	err = toolbus.Add(tools, toolbus.Tool{ID: "wait", Class: toolbus.Pure, Timeout: time.Minute, Concurrency: 1},
		func(ctx context.Context, _ *toolbus.Run, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		})
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// topped returns what `top --once` shows.
func (s shell) topped(flags ...string) (f topFrame, tools map[string]*topTool) {
	s.t.Helper()
	out := s.must(append([]string{"top", "--once", "--json", "--window", "5m"}, flags...)...)
	if err := json.Unmarshal([]byte(out), &f); err != nil || strings.Count(out, "\n") != 1 {
		s.t.Fatalf("%v: %s", err, out)
	}
	tools = map[string]*topTool{}
	for _, one := range f.Tools {
		tools[one.Tool] = one
	}
	return f, tools
}

// The numbers of top are those of the calls that were made, of one tenant. Only an operator sees them, and an auditor
// may watch calls.
func TestTop(t *testing.T) {
	s, operator := deployedTools(t, toolbus.DispatcherOptions{AllowAll: true}, topTools(t))
	of := []string{"--credentials", operator}
	ada, bob := s.token(operator, "ada"), s.token(operator, "bob", "--tenant", "acme")
	for _, caller := range [][]string{ada, ada, ada, bob} {
		s.must(append([]string{"call", "hello"}, caller...)...)
	}
	late := append([]string{"call", "wait", "--timeout", "400ms", "--attempts", "1"}, ada...)
	if code, _, stderr := s.do(late...); code != exitRetryable {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	s.waiting(ada)
	s.waiting(ada)
	f, tools := s.topped(of...)
	for len(f.Executors) == 0 || f.Executors[0].Running == 0 || tools["wait"].InFlight == 0 ||
		tools["wait"].Queue == 0 { // they have to start, and a heartbeat to follow
		f, tools = s.topped(of...)
	}
	hello, wait := tools["hello"], tools["wait"]
	if len(f.Tools) != 2 || hello.Calls != 3 || hello.Success != 3 || hello.PerSecond != 3/300.0 || hello.InFlight != 0 ||
		hello.P50 == nil || *hello.P50 > *hello.P95 {
		t.Errorf("%+v", hello)
	}
	if wait.Calls != 1 || wait.Success != 0 || wait.Errors["R-TIMEOUT"] != 1 || *wait.P95 < 200 || wait.InFlight != 1 ||
		wait.Queue != 1 {
		t.Errorf("%+v", wait)
	}
	if e := f.Executors[0]; len(f.Executors) != 1 || e.Slots != toolbus.DefaultSlots || e.Running != 1 || f.Behind {
		t.Errorf("%+v", f)
	}
	if other, tools := s.topped(append(of, "--tenant", "acme")...); len(other.Tools) != 1 || tools["hello"].Calls != 1 {
		t.Errorf("of acme: %+v", other.Tools)
	}
	eve := append(of, "--actor", "agent://eve")
	if other, _ := s.topped(eve...); len(other.Tools) != 0 {
		t.Errorf("of another actor: %+v", other.Tools)
	}
	text := s.must(append([]string{"top", "--once"}, eve...)...)
	if !strings.Contains(text, "\nno call ended in this time") {
		t.Error(text)
	}
	text = strings.Join(strings.Fields(s.must(append([]string{"top", "--once", "--window", "5m"}, of...)...)), " ")
	if !strings.Contains(text, "TOOL CALLS/S P50 P95 ERRORS IN FLIGHT QUEUE hello 0.01 ") ||
		!strings.Contains(text, " 1 1 1 EXECUTOR POOL RUNNING LOAD ") || !strings.HasSuffix(text, " default 1 of 16 6 %") {
		t.Error(text)
	}
	s.topRights(operator, ada)
	s.cancelAll(ada)
}

// cancelAll cancels the open calls of an agent.
func (s shell) cancelAll(agent []string) {
	s.t.Helper()
	var open []envelope.OpenCall
	out := s.must(append([]string{"calls", "list", "--open", "--json"}, agent...)...)
	if err := json.Unmarshal([]byte(out), &open); err != nil {
		s.t.Fatal(err)
	}
	for _, c := range open {
		s.must(append([]string{"cancel", c.Ref}, agent...)...)
	}
}

func (s shell) topRights(operator string, agent []string) {
	s.t.Helper()
	auditor := s.token(operator, "auditor", "--role", "auditor")
	for _, c := range []struct {
		line string
		as   []string
		says string
	}{
		{"top", agent, "role operator"}, {"top", auditor, "role operator"},
		{"calls watch", agent, "toolbus calls list --open"},
	} {
		code, out, stderr := s.do(append(strings.Fields(c.line), c.as...)...)
		if code != exitTerminal || strings.Contains(out, "hello") || !strings.Contains(stderr, "A-AUTH-FORBIDDEN") ||
			!strings.Contains(stderr, c.says) {
			s.t.Errorf("%s: exit %d: %s%s", c.line, code, out, stderr)
		}
	}
	watched := s.live("calls watch "+strings.Join(auditor, " "), nil)
	for watched.said() == "" {
		s.must(append([]string{"call", "hello"}, agent...)...)
	}
}

// Each interval shows the calls so far, each of them once, until an interrupt.
func TestTopLive(t *testing.T) {
	s, _ := startDev(t, t.TempDir())
	s.ranRef("play", "--input", `{"say":"before"}`)
	lines := s.live("top --json --interval 200ms --window 10m", nil)
	screen := s.live("top --interval 100ms --window 10m", func() (int, int) { return 60, 12 })
	for range 4 {
		s.ranRef("play", "--input", `{"say":"hi"}`)
	}
	last := func(said string) (f topFrame) {
		all := strings.Split(said, "\n")
		if len(all) > 1 && json.Unmarshal([]byte(all[len(all)-2]), &f) != nil {
			t.Fatal(said)
		}
		return f
	}
	lines.until(func(said string) bool { f := last(said); return len(f.Tools) == 1 && f.Tools[0].Calls >= 5 })
	shown := strings.Count(lines.said(), "\n")
	lines.until(func(said string) bool { return strings.Count(said, "\n") > shown+3 })
	screen.until(func(said string) bool { return strings.Count(said, clearBelow) > 3 })
	if code := lines.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	f := last(lines.said())
	if len(f.Tools) != 1 {
		t.Fatalf("%+v", f)
	}
	if play := f.Tools[0]; play.Calls != 5 || play.Success != 5 || play.P95 == nil || len(f.Executors) != 1 {
		t.Errorf("%+v", f)
	}
	if code := screen.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	said, ok := strings.CutPrefix(screen.said(), enterScreen)
	said, left := strings.CutSuffix(said, leaveScreen)
	if !ok || !left || !strings.Contains(said, "\nplay ") {
		t.Errorf("%q", screen.said())
	}
	for line, says := range map[string]string{"top --interval 1ms": "--interval", "top --window 0s": "--window"} {
		if code, _, stderr := s.do(strings.Fields(line)...); code != exitUsage || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit %d: %s", line, code, stderr)
		}
	}
}

// A frame fits into a terminal of any size, and says how many rows it has left out.
func TestTopFits(t *testing.T) {
	f := &topFrame{Tenant: "default", WindowMS: 600_000, Behind: true, OpenMore: true}
	if title := f.text(80, 1, 1)[0]; !strings.HasPrefix(title, "tenant default, calls of 10m until ") {
		t.Error(title)
	}
	for n := range 30 {
		tool := fmt.Sprint("a.tool.with.a.long.name.", n)
		f.Tools = append(f.Tools, &topTool{toolStats: toolStats{Tool: tool, Calls: n}})
		e := envelope.ExecutorInfo{Instance: fmt.Sprint("e", n), Pool: "default", Slots: 4, Running: 1}
		f.Executors = append(f.Executors, e)
	}
	for _, size := range [][2]int{{80, 24}, {200, 60}, {40, 12}, {1, 1}} {
		var out strings.Builder
		s := &screen{to: &out, live: true, size: func() (int, int) { return size[0], size[1] }}
		if err := s.show(f); err != nil {
			t.Fatal(err)
		}
		rows := strings.Split(strings.NewReplacer(toTop, "", clearLine, "", clearBelow, "").Replace(out.String()), "\n")
		if len(rows) > size[1]+1 || size[1] > 1 && len(rows) > size[1] {
			t.Errorf("%v: %d rows", size, len(rows))
		}
		for _, row := range rows {
			if n := utf8.RuneCountInString(row); n > size[0] {
				t.Errorf("%v: %d columns: %s", size, n, row)
			}
		}
		if text := strings.Join(rows, "\n"); size[1] == 24 && (strings.Count(text, " more\n") != 2 ||
			!strings.Contains(text, "  25 %\n") || !strings.HasSuffix(text, " more\n")) {
			t.Errorf("%v: %s", size, text)
		}
	}
}

// A call counts from the beginning of the window to its end, and only then.
func TestTopWindow(t *testing.T) {
	end := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	c := &top{topFlags: &topFlags{window: time.Second}}
	for _, ended := range []time.Duration{-1001, -1000, -1, 0, 1} {
		_ = c.add(endedCall{Tool: "x", Status: envelope.Success, Ended: end.Add(ended * time.Millisecond)}) // takes all
	}
	for _, want := range []struct {
		end   time.Time
		calls int
	}{
		{end, 2}, {end.Add(time.Millisecond), 2}, {end.Add(2 * time.Millisecond), 3},
		{end.Add(1001 * time.Millisecond), 1},
	} {
		f := c.empty()
		if c.count(f, want.end, false); len(f.Tools) != 1 || f.Tools[0].Calls != want.calls || f.At != want.end {
			t.Errorf("%v: %+v", want.end, f.Tools[0])
		}
	}
}
