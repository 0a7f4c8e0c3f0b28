package imports_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// callers must not link what only the other processes of a bus need.
const callers = "internal/app internal/audit/... internal/auth/callout internal/auth/tokenstore " +
	"internal/dispatcher/... internal/executor/... internal/natsserver/... internal/policy/... internal/tool/... kv " +
	"github.com/goccy/go-yaml/... github.com/modelcontextprotocol/go-sdk/... github.com/nats-io/nats-server/... " +
	"github.com/yuin/goldmark/... go.opentelemetry.io/otel/..."

// servers are the packages of the NATS server.
const servers = "internal/natsserver/... github.com/nats-io/nats-server/..."

// links says what packages link: all that they import directly and indirectly.
var links = []struct {
	of       string
	not      string // patterns of packages that they must not link
	packages int    // most packages outside of the standard library; 0 is any number
}{
	{"caller", callers, 80},
	{".", servers, 173}, // two of them are the interfaces of metrics
	{"cmd/toolbus", "internal/bench/... internal/chaos/...", 0},
	{"internal/app internal/deployment internal/dispatcher internal/executor cmd/dispatcher cmd/executor", servers, 0},
}

func TestLinks(t *testing.T) {
	imports := map[string][]string{} // of each package outside of the standard library
	for _, p := range packages(t, "-deps") {
		if !p.Standard {
			imports[p.path()] = p.Imports
		}
	}
	for _, l := range links {
		for of := range strings.FieldsSeq(l.of) {
			if imports[of] == nil {
				t.Errorf("there is no package %s", of)
			}
			chains := map[string]string{} // of imports, by the package that they lead to
			follow(imports, of, of, chains)
			for _, path := range slices.Sorted(maps.Keys(chains)) {
				if matches(l.not, path) {
					t.Errorf("%s must not link %s: %s", of, path, chains[path])
				}
			}
			t.Logf("%s links %d packages", of, len(chains))
			if l.packages > 0 && len(chains) > l.packages {
				t.Errorf("%s links %d packages, at most %d", of, len(chains), l.packages)
			}
		}
	}
}

// follow adds the packages that one links to chains.
func follow(imports map[string][]string, path, chain string, chains map[string]string) {
	chains[path] = chain
	for _, imported := range imports[path] {
		next := within(imported)
		if _, known := imports[next]; known && chains[next] == "" {
			follow(imports, next, chain+" imports "+next, chains)
		}
	}
}
