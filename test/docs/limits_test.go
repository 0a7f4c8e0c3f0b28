package docs_test

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// folders says where the packages lie whose constants docs/limits.md names.
var folders = map[string]string{
	"ijson": "internal/encoding/ijson", "jsonschema": "internal/encoding/jsonschema",
	"envelope": "envelope", "call": "internal/call",
	"check": "internal/dispatcher/check", "answer": "internal/dispatcher/answer",
	"deadline": "internal/dispatcher/deadline", "admission": "internal/dispatcher/admission",
	"executor": "internal/executor", "bus": "bus", "writer": "internal/audit/writer", "kv": "kv",
	"workqueue": "internal/executor/workqueue", "toolbus": ".", "subjects": "subjects",
	"executorapi": "internal/executor/executorapi",
	"streaming":   "streaming", "app": "internal/app", "flow": "internal/flow",
	"reader": "internal/audit/reader", "deployment": "internal/deployment",
	"tokenstore": "internal/auth/tokenstore", "tokensource": "internal/auth/tokensource",
	"auth": "internal/auth", "outcome": "internal/call/outcome", "process": "internal/tool/process",
	"mcp": "internal/tool/mcp", "mcpclient": "internal/tool/mcp/client",
	"client": "internal/client", "catalogue": "internal/client/catalogue", "chunk": "internal/client/chunk",
	"exchange": "internal/client/exchange", "gateway": "gateway/mcp",
	"mcpcmd": "internal/cli/mcpcmd", "program": "program", "protocol": "internal/tool/process/protocol",
	"supervisor": "internal/tool/supervisor", "tool": "internal/tool", "audit": "internal/audit",
	"rpc": "internal/rpc", "heartbeat": "internal/executor/heartbeat",
	"callout": "internal/auth/callout", "lock": "internal/policy/lock", "lockstore": "internal/policy/lockstore",
	"policy": "internal/policy", "telemetry": "internal/telemetry",
	"runstore": "internal/policy/runstore", "timer": "internal/timer",
}

var limitRow = regexp.MustCompile("^\\| `([a-z]+)\\.([A-Za-z]+)` \\| ([0-9]+)(?: (B|KiB|MiB|GiB|ms|s|min|h))? \\|")

// units in bytes, or in nanoseconds as time.Duration has them.
var units = map[string]int64{
	"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9,
}

func TestLimits(t *testing.T) {
	constants := map[string]map[string]int64{}
	for name, folder := range folders {
		constants[name] = constantsOf(t, filepath.Join(root, folder))
	}
	documented := map[string]bool{}
	for line := range strings.Lines(read(t, "docs/limits.md")) {
		m := limitRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		n, err := strconv.ParseInt(m[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		documented[m[1]+"."+m[2]] = true
		got, ok := constants[m[1]][m[2]]
		if want := n * units[m[4]]; !ok || got != want {
			t.Errorf("docs/limits.md says that %s.%s is %d; the code says %d (found: %t)", m[1], m[2], want, got, ok)
		}
	}
	for _, of := range []string{"ijson", "jsonschema", "envelope"} {
		for name := range constants[of] {
			if (strings.HasPrefix(name, "Max") || strings.HasPrefix(name, "Min")) && !documented[of+"."+name] {
				t.Errorf("docs/limits.md does not mention %s.%s", of, name)
			}
		}
	}
}

// constantsOf evaluates the integer constants that a package declares at its top level, without
// compiling what it imports.
func constantsOf(t *testing.T, folder string) map[string]int64 {
	t.Helper()
	fset := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_other.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	conf := types.Config{Importer: clock{}, Error: func(error) {}, IgnoreFuncBodies: true}
	pkg, _ := conf.Check(folder, fset, files, nil) // imports are missing, constants are not
	found := map[string]int64{}
	for _, name := range pkg.Scope().Names() {
		if c, ok := pkg.Scope().Lookup(name).(*types.Const); ok && c.Val().Kind() == constant.Int {
			if n, exact := constant.Int64Val(c.Val()); exact {
				found[name] = n
			}
		}
	}
	return found
}

// clock is an importer of package time, as far as constants need it, and of nothing else.
type clock struct{}

func (clock) Import(path string) (*types.Package, error) {
	if path != "time" {
		return nil, os.ErrNotExist
	}
	pkg := types.NewPackage("time", "time")
	duration := types.NewNamed(types.NewTypeName(token.NoPos, pkg, "Duration", nil), types.Typ[types.Int64], nil)
	pkg.Scope().Insert(duration.Obj())
	for name, d := range map[string]time.Duration{
		"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
		"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
	} {
		pkg.Scope().Insert(types.NewConst(token.NoPos, pkg, name, duration, constant.MakeInt64(int64(d))))
	}
	pkg.MarkComplete()
	return pkg, nil
}
