package imports_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const module = "github.com/seed-018f16cc/toolbus/"

// layer is a row of the table: what these packages may import of this module. A name that ends
// in /... stands for everything below it too, and "*" for every package of the rows above.
type layer struct {
	packages string
	may      string
}

// layers is the architecture (docs/architecture.md), leaves first. A package that is in no row
// fails the test: whoever adds one says where it belongs.
var layers = []layer{
	// What travels, and where.
	{"internal/nearest", ""},
	{"internal/plain", ""},
	{"internal/mcpmeta", ""},
	{"internal/goschema", ""},
	{"internal/ijson", ""},
	{"internal/members/...", "internal/ijson"},
	{"schema", "internal/ijson"},
	{"envelope", "internal/ijson internal/members internal/nearest schema"},
	{"subjects", ""},
	{"internal/timer", ""},
	{"internal/form", ""},
	{"internal/dropped", ""},
	{"internal/sieve", ""},
	{"internal/coalesce", ""},
	{"internal/flow", ""},
	{"internal/jscode", ""},
	// The protocol, tools and records as pure functions and data.
	{"internal/call", "envelope internal/ijson subjects"},
	{"internal/auth", "subjects"},
	{"question", "envelope internal/call"},
	{"internal/gate", "envelope internal/auth internal/call question subjects"},
	{"internal/call/calltest", "envelope internal/call subjects"},
	{"observe", "envelope internal/call"},
	{"internal/call/outcome", "envelope internal/call subjects"},
	{"internal/tool", "envelope internal/call internal/ijson internal/nearest question schema subjects"},
	{"internal/audit", "envelope internal/call internal/form internal/members question subjects"},
	{"accounts", "envelope internal/auth subjects"},
	// The two halves of a call. They know no NATS: their surroundings are small interfaces.
	{"internal/dispatcher", "envelope internal/audit internal/auth internal/call internal/call/outcome " +
		"internal/flow internal/form internal/gate internal/ijson internal/timer internal/tool observe question " +
		"schema subjects"},
	{"internal/executor", "envelope internal/call internal/call/outcome internal/dropped internal/flow " +
		"internal/form internal/ijson internal/mcpmeta internal/timer internal/tool observe schema subjects"},
	{"internal/flight", "envelope internal/timer"},
	// NATS.
	{"internal/ack", ""},
	{"kv", "envelope internal/ack internal/call internal/form internal/jscode internal/timer subjects"},
	{"streaming", "envelope internal/ack internal/form internal/jscode internal/timer subjects"},
	{"bus", "envelope internal/call internal/coalesce internal/dropped internal/flow internal/form " +
		"internal/jscode internal/sieve internal/timer kv question subjects"},
	{"internal/audit/writer", "bus envelope internal/ack internal/audit internal/call internal/flow " +
		"internal/form internal/jscode internal/timer kv question subjects"},
	{"internal/audit/reader", "bus envelope internal/audit internal/audit/writer internal/auth internal/call " +
		"internal/flow internal/form internal/timer question subjects"},
	{"internal/executor/workqueue", "envelope internal/call internal/flow internal/form internal/jscode " +
		"internal/timer kv subjects"},
	{"internal/auth/tokenstore", "accounts bus envelope internal/audit internal/auth internal/flow " +
		"internal/form internal/jscode internal/nearest internal/timer question subjects"},
	{"internal/auth/tokensource", "bus envelope internal/auth internal/timer question subjects"},
	{"internal/health", "accounts bus internal/audit/writer internal/timer kv question"},
	{"internal/executor/executorapi", "bus envelope internal/audit/writer internal/call internal/call/outcome " +
		"internal/dropped internal/executor/workqueue internal/flow internal/form internal/timer kv question " +
		"streaming subjects"},
	// What runs tools.
	{"internal/tool/supervisor", ""},
	{"internal/tool/process/protocol", ""},
	{"internal/tool/process", "envelope internal/ijson internal/tool internal/tool/process/protocol " +
		"internal/tool/supervisor"},
	{"internal/tool/native", "envelope internal/ijson internal/timer internal/tool"},
	{"internal/tool/mcp/client", "internal/ijson internal/tool/supervisor"},
	{"internal/tool/mcp", "envelope internal/call internal/ijson internal/mcpmeta internal/tool " +
		"internal/tool/mcp/client internal/tool/supervisor schema"},
	{"internal/tool/tooltest", "envelope internal/call internal/timer internal/tool question"},
	// What observes: the wiring hands it to the cores, which never see it.
	{"internal/telemetry", "envelope observe"},
	{"internal/natsserver internal/natsserver/natstest internal/rawpipeline", "internal/flow"},
	{"internal/natsserver/bustest", "bus envelope internal/call internal/form internal/natsserver/natstest kv " +
		"question subjects"},
	{"internal/deploytest", "accounts internal/auth"},
	{"internal/floor", "bus internal/timer subjects"},
	// A tool as a program of its own: what it is written with, and the shipped ones, which know the process
	// protocol and nothing else.
	{"program", "internal/tool/process/protocol"},
	{"internal/tool/programtest", "program"},
	{"internal/webpage internal/transcript", "program"},
	{"tools/internal/...", "program"},
	{"tools/...", "internal/transcript internal/webpage program tools/internal/..."},
	// The same as MCP servers: what they list is what their manifests say.
	{"mcptools", ""},
	{"mcptools/internal/ask", "program"},
	{"mcptools/internal/serve", "envelope internal/call internal/mcpmeta internal/tool internal/tool/mcp " +
		"internal/tool/process/protocol mcptools program schema"},
	{"mcptools/internal/...", "internal/tool/supervisor internal/transcript internal/webpage " +
		"mcptools/internal/ask mcptools/internal/serve program"},
	// The wiring, and what is built on it.
	{"internal/app", "*"},
	// The front door: what a Go user imports, and what is built on it.
	{".", "*"},
	{"toolbustest", ". internal/natsserver"},
	{"gateway/mcp", ". envelope internal/auth internal/ijson internal/mcpmeta internal/nearest question schema " +
		"subjects"},
	{"internal/doctor", "*"},
	{"internal/letter", "envelope internal/audit/reader internal/audit/writer internal/call internal/plain"},
	{"internal/cli", "*"},
	{"internal/deployment", "accounts bus internal/auth"},
	{"internal/bench/...", "* internal/bench/..."},
	{"internal/chaos/...", "* internal/chaos/..."},
	{"internal/demo", "*"},
	{"internal/devbus", "*"},
	{"internal/mcpconfig", "internal/tool/mcp/client"},
	{"internal/tool/mcp/importer", "internal/call internal/ijson internal/mcpconfig internal/mcpmeta " +
		"internal/tool internal/tool/mcp internal/tool/mcp/client internal/tool/supervisor question schema " +
		"subjects"},
	{"internal/mcpcli", "*"},
	{"internal/tool/gen", "*"},
	{"cmd/dispatcher cmd/executor", "internal/cli internal/tool/supervisor"},
	{"cmd/toolbus-supervisor", "internal/tool/supervisor"},
	{"cmd/toolbus", "*"},
	// Tests may know everything.
	{"test/...", "* test/..."},
}

// speakNATS may import nats.go. All others get what they need of it as interfaces.
const speakNATS = "bus kv streaming internal/audit/writer internal/audit/reader internal/executor/workqueue " +
	"internal/executor/executorapi internal/auth/tokenstore internal/ack internal/jscode . internal/app " +
	"internal/health internal/doctor internal/natsserver/bustest internal/natsserver internal/natsserver/natstest " +
	"internal/rawpipeline internal/floor internal/deployment internal/bench/... internal/chaos/... test/..."

// embedNATS may import the server.
const embedNATS = "internal/natsserver internal/natsserver/natstest internal/natsserver/bustest"

// pure packages do not know NATS even in their tests.
const pure = "internal/ijson schema envelope subjects question internal/call/... observe internal/call/outcome " +
	"internal/tool/... internal/audit internal/dispatcher internal/executor program/... tools/..."

// vague names say where code was put and not what it does.
var vague = []string{"util", "utils", "common", "helper", "helpers", "types", "models", "base", "misc", "shared"}

// pkg is a package as `go list` tells it.
type pkg struct {
	ImportPath   string
	Name         string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func (p pkg) path() string { return within(p.ImportPath) }

// within is where a package lies in this module, "." for its root. Others keep their path.
func within(path string) string {
	if path+"/" == module {
		return "."
	}
	return strings.TrimPrefix(path, module)
}

func TestLayers(t *testing.T) {
	for _, p := range packages(t) {
		at := slices.IndexFunc(layers, func(l layer) bool { return matches(l.packages, p.path()) })
		if at < 0 {
			t.Errorf("%s is in no layer: add it to the table of this test and to docs/architecture.md", p.path())
			continue
		}
		for _, imported := range p.Imports {
			path := within(imported)
			if path != imported && !allowed(at, path) {
				t.Errorf("%s imports %s, but may import of this module only: %s", p.path(), path, layers[at].may)
			}
		}
	}
}

// allowed says whether packages of layers[at] may import path.
func allowed(at int, path string) bool {
	if matches(layers[at].may, path) {
		return true
	}
	return slices.Contains(strings.Fields(layers[at].may), "*") &&
		slices.ContainsFunc(layers[:at], func(l layer) bool { return matches(l.packages, path) })
}

func TestNATS(t *testing.T) {
	for _, p := range packages(t) {
		imports := p.Imports
		if matches(pure, p.path()) {
			imports = slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		}
		for _, imported := range imports {
			switch {
			case strings.HasPrefix(imported, "github.com/nats-io/nats-server/") && !matches(embedNATS, p.path()):
				t.Errorf("%s imports %s; only %s may", p.path(), imported, embedNATS)
			case strings.HasPrefix(imported, "github.com/nats-io/nats.go") && !matches(speakNATS, p.path()):
				t.Errorf("%s imports %s; only %s may", p.path(), imported, speakNATS)
			}
		}
	}
}

func TestNames(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(vague, p.Name) {
			t.Errorf("package %s: the name %q does not say what it does", p.path(), p.Name)
		}
	}
}

// TestDependencies compares the modules that this one requires directly, and their versions, with the table that
// gives the reason for each.
func TestDependencies(t *testing.T) {
	var mod struct {
		Require []struct {
			Path     string
			Version  string
			Indirect bool
		}
		Tool []struct{ Path string }
	}
	decode(t, goCommand(t, "mod", "edit", "-json"), &mod)
	var required []string
	for _, r := range mod.Require {
		asTool := slices.ContainsFunc(mod.Tool, func(tool struct{ Path string }) bool {
			return strings.HasPrefix(tool.Path,
				r.Path+"/")
		})
		if !r.Indirect || asTool {
			required = append(required, r.Path+" "+r.Version)
		}
	}
	slices.Sort(required)
	if documented := documented(t); !slices.Equal(required, documented) {
		t.Errorf("go.mod and docs/dependencies.md disagree\nonly in go.mod: %v\nonly in docs:   %v",
			without(required, documented), without(documented, required))
	}
}

// documented returns the modules of the table in docs/dependencies.md with their versions, sorted.
func documented(t *testing.T) (modules []string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		if name := strings.TrimSpace(cells[1]); strings.HasPrefix(name, "`") {
			modules = append(modules, strings.Trim(name, "`")+" "+strings.TrimSpace(cells[2]))
		}
	}
	slices.Sort(modules)
	return modules
}

func without(list, remove []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(remove, s) })
}

// matches says whether path is one of the packages that patterns name.
func matches(patterns, path string) bool {
	for pattern := range strings.FieldsSeq(patterns) {
		folder, below := strings.CutSuffix(pattern, "/...")
		if path == folder || below && strings.HasPrefix(path, folder+"/") {
			return true
		}
	}
	return false
}

func packages(t *testing.T) (list []pkg) {
	t.Helper()
	out := jsontext.NewDecoder(strings.NewReader(goCommand(t, "list",
		"-json=ImportPath,Name,Imports,TestImports,XTestImports", "./...")))
	for {
		var p pkg
		err := json.UnmarshalDecode(out, &p)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
}

func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	return command(t, "go", args...)
}

// command runs a program at the root of the module, and returns what it says.
func command(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = "../.."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
	}
	return string(out)
}

func decode(t *testing.T, data string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(data), into); err != nil {
		t.Fatal(err)
	}
}
