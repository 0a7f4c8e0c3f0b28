package observability

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"

	"github.com/seed-018f16cc/toolbus/internal/app"
	toolset "github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/gen"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// alerts returns the rules for a folder of tools.
func alerts(t *testing.T, tools string) []byte {
	t.Helper()
	set, err := toolset.Load(tools, app.Transports()...)
	if err != nil {
		t.Fatal(err)
	}
	made, err := gen.Alerts(set)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// The rules that are kept are those of no tools.
func TestAlerts(t *testing.T) {
	made, err := gen.Alerts(toolset.NewSet())
	if err != nil {
		t.Fatal(err)
	}
	inSync(t, "alerts.yml", made)
}

var (
	row      = regexp.MustCompile("(?m)^\\| `[a-z.]+` \\| `([a-z_]+)` \\| ([a-z]+)[^|]*\\| ([^|]*) \\|")
	used     = regexp.MustCompile(`\b((?:tool|toolbus)_[a-z0-9_]+)(?:\{([^}]*)\})?`)
	recorded = regexp.MustCompile(`record: (tool:[a-z0-9_:]+)`)
	command  = regexp.MustCompile(`(?m)^ +command: .*$`) // of an annotation: it may name events of the record
	derived  = regexp.MustCompile(`\btool:[a-z0-9_:]+`)
	label    = regexp.MustCompile(`([a-z_]+)(?:=|!)`)
)

// Every series in a rule or in a panel is in the tables of docs/metrics.md, with the attributes by which it is chosen,
// or a rule records it.
func TestNames(t *testing.T) {
	attributes := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(string(read(t, "../../docs/metrics.md")), -1) {
		attributes[m[1]] = m[3]
		if m[2] == "histogram" {
			attributes[m[1]+"_bucket"] = m[3]
		}
	}
	made := string(alerts(t, "../../internal/tool/gen/testdata/tools")) // has objectives, too
	known := recorded.FindAllStringSubmatch(made, -1)
	for _, expr := range append(exprs(t), command.ReplaceAllString(made, "")) {
		for _, m := range used.FindAllStringSubmatch(expr, -1) {
			of, ok := attributes[m[1]]
			if !ok {
				t.Errorf("%s is not in docs/metrics.md", m[1])
			}
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				if !strings.Contains(of, "`"+l[1]+"`") {
					t.Errorf("%s has no attribute %s, but %s", m[1], l[1], of)
				}
			}
		}
		for _, name := range derived.FindAllString(expr, -1) {
			if !slices.ContainsFunc(known, func(m []string) bool { return m[1] == name }) {
				t.Errorf("no rule records %s", name)
			}
		}
	}
}

// exprs returns the queries of all panels.
func exprs(t *testing.T) (all []string) {
	t.Helper()
	for name := range dashboards() {
		of := queries(t, name, "")
		if all = append(all, of...); len(of) == 0 {
			t.Errorf("%s has no panels", name)
		}
	}
	return all
}

// queries returns the queries of the panels of a dashboard with a title.
func queries(t *testing.T, dashboard, title string) (all []string) {
	t.Helper()
	builder := dashboards()[dashboard]
	if builder == nil {
		t.Fatalf("there is no dashboard %q", dashboard)
	}
	d, err := builder.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		if p.Panel.Title == nil || title != "" && *p.Panel.Title != title {
			continue
		}
		for _, q := range p.Panel.Targets {
			all = append(all, q.(prometheus.Dataquery).Expr)
		}
	}
	return all
}

// What the Compose file mounts from its folder is there.
func TestMounts(t *testing.T) {
	var file struct {
		Services map[string]struct{ Volumes []string }
	}
	if err := yaml.Unmarshal(read(t, "../../deploy/compose.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	mounted := 0
	for _, s := range file.Services {
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(from, "./observability") {
				mounted++
				if _, err := os.Stat(filepath.Join("../../deploy", from)); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if mounted != 3 {
		t.Errorf("%d folders of deploy/observability are mounted, not 3", mounted)
	}
}
