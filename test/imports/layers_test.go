package imports_test

import (
	"slices"
	"strings"
	"testing"
)

// layer is a row of the table. A name that ends in /... stands for everything below it, too.
type layer struct {
	floor    int
	packages string
	nats     string // what of NATS they may import: "" nothing, "client" nats.go, "server" the server as well
	may      string // what they may import of this module; "*" is every package of a lower floor, or above in the table
}

// layers is the architecture (docs/architecture.md), from the lowest floor. A package that is in no row fails the
// test: its author says where it belongs.
//
//	0 leaves · 1 wire and protocol, pure · 2 the bus · 3 cores, pure · 4 parts on the bus · 5 adapters of tools
//	6 wiring · 7 public front · 8 commands · 9 tests
var layers = []layer{
	{0, "subjects", "", ""},
	{0, "internal/encoding/ijson", "", ""},
	{0, "internal/encoding/ijson/ijsontest", "", ""},
	{0, "internal/encoding/jsonschema", "", "internal/encoding/ijson"},
	{0, "internal/encoding/format", "", ""},
	{0, "internal/flow", "", ""},
	{0, "internal/timer", "", ""},
	{0, "internal/timer/timertest", "", ""},
	{0, "internal/tool/supervisor", "", ""},
	{0, "internal/tool/address", "", ""},
	{0, "internal/natsserver", "server", "internal/flow internal/timer"},
	{0, "internal/tool/process/protocol", "", ""},
	{0, "program", "", "internal/tool/process/protocol"},
	{1, "envelope", "", "internal/encoding/ijson internal/encoding/jsonschema"},
	{1, "internal/call", "", "envelope internal/encoding/ijson internal/timer subjects"},
	{1, "internal/call/calltest", "", "internal/call subjects"},
	{1, "internal/call/outcome", "", "envelope internal/call subjects"},
	{1, "internal/tool", "", "envelope internal/call internal/encoding/ijson internal/encoding/jsonschema " +
		"internal/tool/supervisor subjects"},
	{1, "internal/policy/lock", "", "envelope internal/timer"},
	{1, "internal/operation", "", "envelope subjects"},
	{1, "internal/auth", "", "envelope internal/call internal/operation subjects"},
	{1, "internal/policy", "", "envelope internal/auth internal/call internal/encoding/ijson internal/tool"},
	{1, "internal/audit", "", "envelope internal/call internal/encoding/format internal/encoding/ijson subjects"},
	{1, "internal/telemetry", "", "envelope internal/call"},
	{2, "bus", "client", "envelope internal/encoding/format internal/timer subjects"},
	{2, "kv", "client", "bus envelope internal/call internal/encoding/format internal/timer subjects"},
	{2, "streaming", "client", "bus envelope internal/encoding/format internal/timer subjects"},
	{2, "internal/rpc", "client", "bus envelope internal/auth internal/call internal/encoding/format internal/flow " +
		"internal/operation internal/timer subjects"},
	{2, "internal/policy/replica", "client", "bus envelope internal/encoding/format internal/timer subjects"},
	{3, "internal/dispatcher/check", "", "envelope internal/auth internal/call internal/call/outcome " +
		"internal/encoding/ijson internal/encoding/jsonschema internal/flow internal/policy internal/policy/lock " +
		"internal/timer internal/tool subjects"},
	{3, "internal/dispatcher/answer", "", "envelope internal/audit internal/call internal/call/outcome " +
		"internal/dispatcher/check internal/flow internal/timer subjects"},
	{3, "internal/dispatcher/deadline", "", "envelope internal/call internal/call/outcome internal/dispatcher/answer " +
		"internal/encoding/format internal/flow internal/timer subjects"},
	{3, "internal/dispatcher/admission", "", "envelope internal/audit internal/auth internal/call " +
		"internal/call/outcome internal/dispatcher/answer internal/dispatcher/check internal/dispatcher/deadline " +
		"internal/flow internal/timer subjects"},
	{3, "internal/dispatcher", "", "envelope internal/audit internal/auth internal/call internal/call/outcome " +
		"internal/dispatcher/admission internal/dispatcher/answer internal/dispatcher/check " +
		"internal/dispatcher/deadline internal/flow internal/policy internal/policy/lock subjects"},
	{3, "internal/executor", "", "envelope internal/call internal/call/outcome internal/encoding/format " +
		"internal/encoding/ijson internal/encoding/jsonschema internal/flow internal/policy/lock internal/timer " +
		"internal/tool subjects"},
	{4, "internal/audit/writer", "client", "bus envelope internal/audit internal/call internal/encoding/format " +
		"internal/flow internal/timer kv subjects"},
	{4, "internal/audit/reader", "client", "bus envelope internal/audit internal/audit/writer internal/auth " +
		"internal/flow internal/operation internal/rpc internal/timer subjects"},
	{4, "internal/auth/tokensource", "", "bus envelope internal/auth internal/operation internal/timer"},
	{4, "internal/deployment", "", "internal/auth"},
	{4, "internal/auth/tokenstore", "client", "bus envelope internal/audit internal/auth internal/call " +
		"internal/deployment internal/encoding/format internal/flow internal/policy/replica internal/timer subjects"},
	{4, "internal/policy/lockstore", "client", "envelope internal/audit internal/call internal/policy " +
		"internal/policy/lock internal/policy/replica subjects"},
	{4, "internal/policy/runstore", "client", "bus envelope internal/audit internal/auth internal/call " +
		"internal/encoding/format internal/encoding/ijson internal/policy internal/policy/replica internal/timer subjects"},
	{4, "internal/policy/store", "client", "bus envelope internal/call internal/encoding/format internal/policy " +
		"internal/policy/replica internal/timer internal/tool subjects"},
	{4, "internal/deployment/deploymenttest", "client", "bus internal/auth internal/deployment"},
	{4, "internal/deployment/processtest", "", "internal/auth internal/deployment"},
	{4, "internal/natsserver/natstest", "server", ""},
	{4, "internal/natsserver/bustest", "server", "bus envelope internal/call internal/encoding/format " +
		"internal/natsserver/natstest internal/rpc kv subjects"},
	{4, "internal/executor/heartbeat", "client", "internal/encoding/format internal/tool/supervisor subjects"},
	{4, "internal/executor/workqueue", "client", "bus envelope internal/call internal/encoding/format " +
		"internal/executor/heartbeat internal/flow internal/timer kv subjects"},
	{4, "internal/health", "client", "bus envelope internal/audit internal/audit/writer internal/auth internal/call " +
		"internal/deployment internal/executor/heartbeat internal/timer internal/tool/supervisor kv subjects"},
	{4, "internal/auth/callout", "client", "internal/auth internal/auth/tokenstore internal/deployment " +
		"internal/flow subjects"},
	{4, "internal/audit/deadletter", "client", "bus envelope internal/audit internal/audit/reader internal/call " +
		"internal/encoding/format subjects"},
	{4, "internal/executor/executorapi", "client", "bus envelope internal/audit internal/audit/deadletter " +
		"internal/audit/writer internal/call internal/call/outcome internal/encoding/format " +
		"internal/executor/heartbeat internal/executor/workqueue internal/flow internal/policy/lock internal/rpc " +
		"internal/timer kv streaming subjects"},
	{4, "internal/client/exchange", "client", "envelope internal/flow internal/rpc internal/timer streaming subjects"},
	{4, "internal/client/catalogue", "client", "bus envelope internal/auth internal/call internal/encoding/jsonschema " +
		"internal/operation internal/rpc internal/timer subjects"},
	{4, "internal/client/chunk", "client", "bus envelope internal/rpc internal/timer streaming subjects"},
	{4, "internal/client", "client", "bus envelope internal/auth internal/auth/tokensource internal/client/catalogue " +
		"internal/client/chunk internal/client/exchange internal/encoding/ijson internal/encoding/jsonschema " +
		"internal/flow internal/operation internal/rpc internal/timer streaming subjects"},
	{4, "internal/client/link", "client", "bus envelope internal/auth internal/auth/tokensource internal/client " +
		"internal/operation internal/rpc internal/timer streaming subjects"},
	{5, "internal/tool/process", "", "envelope internal/encoding/ijson internal/tool " +
		"internal/tool/process/protocol internal/tool/supervisor"},
	{5, "internal/tool/native", "", "envelope internal/encoding/ijson internal/timer internal/tool"},
	{5, "internal/tool/mcp/client", "", "internal/encoding/ijson internal/tool/address internal/tool/supervisor"},
	{5, "internal/tool/mcp/oauth", "", ""},
	{5, "internal/tool/mcp/oauth/oauthtest", "", ""},
	{5, "internal/tool/mcp", "", "envelope internal/encoding/ijson internal/encoding/jsonschema internal/tool " +
		"internal/tool/mcp/client internal/tool/mcp/oauth internal/tool/supervisor"},
	{5, "internal/tool/tooltest", "", "envelope internal/call internal/timer/timertest internal/tool"},
	{5, "internal/tool/programtest", "", "program"},
	{5, "tools/...", "", "envelope internal/call internal/encoding/jsonschema internal/tool internal/tool/address " +
		"internal/tool/mcp internal/tool/process/protocol internal/tool/supervisor program"},
	{6, "internal/app", "client", "*"},
	{7, "caller", "client", "envelope internal/client internal/client/link internal/operation internal/rpc"},
	{7, ".", "client", "*"},
	{7, "gateway/mcp", "", ". envelope internal/auth internal/encoding/ijson internal/encoding/jsonschema " +
		"subjects"},
	{7, "toolbustest", "", ". internal/natsserver"},
	{7, "admin", "client", "*"},
	{8, "internal/bench/...", "client", "*"},
	{8, "internal/chaos/...", "client", "*"},
	{8, "internal/demo", "", "*"},
	{8, "cmd/toolbus-supervisor", "", "*"},
	{8, "internal/tool/mcp/clientconfig", "", "*"},
	{8, "internal/tool/mcp/importer", "", "*"},
	{8, "internal/tool/scaffold", "", "*"},
	{8, "internal/telemetry/monitor", "", "*"},
	{8, "internal/telemetry/otlp", "", "*"},
	{8, "internal/cli", "", "*"},
	{8, "internal/tool/gen", "", "*"},
	{8, "cmd/dispatcher cmd/executor", "", "*"},
	{8, "internal/cli/mcpcmd", "", "*"},
	{8, "cmd/toolbus", "client", "*"},
	{8, "cmd/toolbus-lab", "", "*"},
	{9, "test/...", "server", "*"},
}

// pure packages do not know NATS even in their tests.
const pure = "internal/encoding/... envelope subjects internal/call/... internal/tool/... internal/audit " +
	"internal/dispatcher/... internal/executor internal/policy internal/policy/lock program/... tools/..."

// only has the floors that the packages of a floor may import: the cores and the adapters know no NATS.
var only = map[int][]int{3: {0, 1, 3}, 5: {0, 1, 5}}

// TestFloors holds the table itself: no row may import a package of a higher floor, or one further down.
func TestFloors(t *testing.T) {
	for at, l := range layers {
		if at > 0 && l.floor < layers[at-1].floor {
			t.Errorf("%s is on floor %d, below the row before it", l.packages, l.floor)
		}
		for name := range strings.FieldsSeq(l.may) {
			of := rowOf(strings.TrimSuffix(name, "/..."))
			switch {
			case name == "*":
			case of < 0 || of >= at:
				t.Errorf("%s may import %s, which is in no row above it", l.packages, name)
			case only[l.floor] != nil && !slices.Contains(only[l.floor], layers[of].floor):
				t.Errorf("%s on floor %d may import %s of floor %d", l.packages, l.floor, name, layers[of].floor)
			}
		}
	}
}

func TestLayers(t *testing.T) {
	for _, p := range packages(t) {
		at := rowOf(p.path())
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

// TestCommands holds commands to the public packages toolbus and admin: they do what any program can do.
func TestCommands(t *testing.T) {
	for _, p := range packages(t) {
		imports := slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		if matches("cmd/... internal/cli/...", p.path()) && slices.Contains(imports, module+"internal/client") {
			t.Errorf("%s imports internal/client: use toolbus or admin", p.path())
		}
	}
}

// rowOf returns the row of a package: the one that names it, or else the one that names a folder above it.
func rowOf(path string) int {
	named := func(l layer) bool { return slices.Contains(strings.Fields(l.packages), path) }
	if at := slices.IndexFunc(layers, named); at >= 0 {
		return at
	}
	return slices.IndexFunc(layers, func(l layer) bool { return matches(l.packages, path) })
}

// allowed says whether packages of layers[at] may import path.
func allowed(at int, path string) bool {
	of := rowOf(path)
	return of == at || matches(layers[at].may, path) || layers[at].may == "*" && of >= 0 && of < at
}

func TestNATS(t *testing.T) {
	for _, p := range packages(t) {
		at := rowOf(p.path())
		if at < 0 {
			continue // TestLayers says so
		}
		imports := p.Imports
		if matches(pure, p.path()) {
			imports = slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		}
		for _, imported := range imports {
			nats := layers[at].nats
			switch {
			case strings.HasPrefix(imported, "github.com/nats-io/nats-server/") && nats != "server",
				strings.HasPrefix(imported, "github.com/nats-io/nats.go") && nats == "":
				t.Errorf("%s imports %s, but its row of the table says of NATS: %q", p.path(), imported, nats)
			}
		}
	}
}
