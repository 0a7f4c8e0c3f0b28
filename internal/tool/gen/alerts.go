package gen

import (
	"bytes"
	_ "embed" // the rules for all tools and of the bus
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

//go:embed alerts.yaml
var rules string

const header = `# Rules for Prometheus. "toolbus gen alerts" wrote them from manifests: repeat it when these change.
groups:
  - name: toolbus-objectives
    rules:
`

// noObjectives is the list of objectives if no tool has any.
const noObjectives = " []\n"

// objective holds the fields of a manifest that say how well the tool must serve.
type objective struct {
	Tier string `json:"tier"`
	SLO  struct {
		Success float64 `json:"success_rate_min"`
		P95     float64 `json:"p95_latency_ms_max"`
	} `json:"slo"`
}

// success returns the least share of successful calls of tools that declare none, by tier. A tier that is not here has
// no objectives.
func success(tier string) (least float64, ok bool) {
	least, ok = map[string]float64{"T2": 0.99, "T3": 0.995, "T4": 0.999}[tier]
	return least, ok
}

// Alerts returns rules for Prometheus. The objectives of tools are series, which the rules and dashboards compare with
// what was measured, so each tool adds no rules but these.
func Alerts(r *tool.Set) ([]byte, error) {
	page := bytes.NewBufferString(header)
	none := page.Len()
	for _, m := range r.List() {
		var o objective
		if err := json.Unmarshal(m.Whole, &o); err != nil {
			return nil, fmt.Errorf("%s: %w", m.ToolID, err)
		}
		least, ok := success(o.Tier)
		if !ok {
			continue
		}
		if o.SLO.Success > 0 {
			least = o.SLO.Success
		}
		owner, err := json.Marshal(m.Owner)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.ToolID, err)
		}
		labels := fmt.Sprintf("{tool: %q, tier: %s, owner: %s}", m.ToolID, o.Tier, owner)
		record(page, "tool:success_rate_min", least, labels)
		if o.SLO.P95 > 0 {
			record(page, "tool:p95_latency_seconds_max", o.SLO.P95/1000, labels)
		}
	}
	if page.Len() == none { // a list of rules must not be null
		page.Truncate(none - 1)
		page.WriteString(noObjectives)
	}
	page.WriteString("\n" + rules)
	return page.Bytes(), nil
}

// record writes a rule whose series always has one value.
func record(page *bytes.Buffer, name string, value float64, labels string) {
	fmt.Fprintf(page, "      - record: %s\n        expr: vector(%g)\n        labels: %s\n", name, value, labels)
}
