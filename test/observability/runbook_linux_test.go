package observability

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	toolset "github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/gen"
)

// section is a fault in docs/runbook.md: the alert that fires, the panel that shows it, and the command that explains
// it, with what that prints.
type section struct{ title, alert, panel, dashboard, command, prints string }

const others = "Other alerts" // the last section, of alerts without a fault that a test makes

var (
	ofAlert = regexp.MustCompile("(?m)^- \\*\\*Alert:\\*\\* `(\\w+)`")
	ofPanel = regexp.MustCompile("(?m)^- \\*\\*Panel:\\*\\* \"([^\"]+)\" of the dashboard `(\\w+)`")
	blocks  = regexp.MustCompile("(?s)```sh\n(.*?)\n```\n\n```text\n(.*?)\n```")
	named   = regexp.MustCompile("`(Tool[a-z]*[A-Z]\\w+)`")
)

// runbook returns the faults, and the rows of the other alerts.
func runbook(t *testing.T) (all []section, rest string) {
	t.Helper()
	parts := strings.Split(string(read(t, "../../docs/runbook.md")), "\n## ")
	for _, part := range parts[1:] {
		title, text, _ := strings.Cut(part, "\n")
		if title == others {
			return all, text
		}
		alert, panel := ofAlert.FindStringSubmatch(text), ofPanel.FindStringSubmatch(text)
		said := blocks.FindStringSubmatch(text)
		if alert == nil || panel == nil || said == nil {
			t.Fatalf("docs/runbook.md: %q lacks the alert, the panel, or the command with its output", title)
		}
		all = append(all, section{title, alert[1], panel[1], panel[2], said[1], said[2]})
	}
	t.Fatalf("docs/runbook.md has no section %q", others)
	return nil, ""
}

// explained returns the command of each alert of the rules.
func explained(t *testing.T) map[string]string {
	t.Helper()
	made, err := gen.Alerts(toolset.NewSet())
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations struct{ Command string }
			}
		}
	}
	if err := yaml.Unmarshal(made, &file); err != nil {
		t.Fatal(err)
	}
	commands := map[string]string{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				commands[r.Alert] = strings.ReplaceAll(r.Annotations.Command, "{{ $labels.tool }}", toolID)
			}
		}
	}
	return commands
}

// Every alert, panel and command of the runbook exists. Every alert is in the runbook. TestRehearsal makes every fault.
func TestRunbook(t *testing.T) {
	sections, rest := runbook(t)
	commands, rehearsed := explained(t), faults()
	missing := map[string]bool{}
	for alert, command := range commands {
		missing[alert] = !strings.Contains(rest, "| `"+alert+"` | `"+strings.ReplaceAll(command, toolID, "TOOL")+"` |")
	}
	for _, s := range sections {
		delete(missing, s.alert)
		if commands[s.alert] != s.command {
			t.Errorf("%s: the runbook has the command %q, and %s %q", s.title, s.command, s.alert, commands[s.alert])
		}
		if len(queries(t, s.dashboard, s.panel)) == 0 {
			t.Errorf("%s: the dashboard %s has no panel %q", s.title, s.dashboard, s.panel)
		}
		if !slices.ContainsFunc(rehearsed, func(f fault) bool { return f.title == s.title }) {
			t.Errorf("%s: no test makes it", s.title)
		}
	}
	for alert, yes := range missing {
		if yes {
			t.Errorf("%s is not in the runbook, with its command", alert)
		}
	}
	for _, m := range named.FindAllStringSubmatch(string(read(t, "../../docs/runbook.md")), -1) {
		if _, ok := commands[m[1]]; !ok {
			t.Errorf("the runbook names %s, which no rule has", m[1])
		}
	}
	if len(sections) != len(rehearsed) {
		t.Errorf("%d sections, and %d faults", len(sections), len(rehearsed))
	}
}
