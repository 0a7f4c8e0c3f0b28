package observability

//lint:file-ignore SA1019 Every version of Grafana reads dashboards of this form from files.

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

const kept = "../../deploy/observability"

var update = flag.Bool("update", false, "write the dashboards and the alerts where they are kept")

// Units of Grafana.
const short, perSecond, percent, seconds, size = "short", "cps", "percentunit", "s", "bytes"

// runs are the runs of the chosen tool that count for its objective.
const (
	runs   = `sum by (tool) (increase(tool_invocation_count_total{tool="$tool",action!="",status!="invalid_request"}[7d]))`
	failed = `(sum by (tool) (increase(tool_invocation_count_total{tool="$tool",action!="",` +
		`status=~"retryable_error|terminal_error"}[7d])) or 0 * ` + runs + `)`
	allowed = `(1 - tool:success_rate_min{tool="$tool"})`
)

// query is a query of a panel, and how its series are named.
type query struct{ expr, legend string }

// dashboards returns the dashboards by the name of their file.
func dashboards() map[string]*dashboard.DashboardBuilder {
	return map[string]*dashboard.DashboardBuilder{"fleet": fleet(), "tool": tool(), "tenant": tenant(), "bus": bus()}
}

func fleet() *dashboard.DashboardBuilder {
	const rate, all = `[$__rate_interval]`, `rate(tool_invocation_count_total[$__rate_interval])`
	return titled("fleet", "Toolbus: fleet", "now-6h").
		WithPanel(number("Calls a second", perSecond, `sum(`+all+`)`)).
		WithPanel(number("Success rate", percent,
			`sum(rate(tool_invocation_count_total{status="success"}`+rate+`)) / sum(`+all+`)`)).
		WithPanel(number("Runs under way", short, `sum(toolbus_run_active)`)).
		WithPanel(number("Calls that wait", short, `sum(max by (pool) (toolbus_queue_depth))`)).
		WithPanel(graph("Calls a second", perSecond, query{`topk(10, sum by (tool) (` + all + `))`, "{{tool}}"})).
		WithPanel(graph("Errors a second", perSecond,
			query{`topk(10, sum by (tool, error_code) (rate(tool_error_count_total` + rate + `)))`, "{{tool}} {{error_code}}"})).
		WithPanel(graph("95th percentile", seconds, query{`topk(10, histogram_quantile(0.95, sum by (tool, le) ` +
			`(rate(tool_invocation_duration_seconds_bucket` + rate + `))))`, "{{tool}}"})).
		WithPanel(graph("Use of the error budget: 1 uses it up in seven days", short,
			query{`topk(10, tool:error_ratio:rate6h / on (tool) group_left (tier) (1 - tool:success_rate_min))`,
				"{{tool}} {{tier}}"})).
		WithPanel(graph("Runs under way", short, query{`topk(10, sum by (tool) (toolbus_run_active))`, "{{tool}}"})).
		WithPanel(graph("Outcomes a second by who decided", perSecond,
			query{`sum by (by, status) (rate(toolbus_outcome_count_total` + rate + `))`, "{{by}} {{status}}"}))
}

func tool() *dashboard.DashboardBuilder {
	const rate, of = `[$__rate_interval]`, `{tool="$tool"}` + `[$__rate_interval]`
	latency := func(q, name string) query {
		return query{`histogram_quantile(` + q + `, sum by (le) (rate(tool_invocation_duration_seconds_bucket` + of +
			`)))`, name}
	}
	burn := func(window string) query {
		return query{`tool:error_ratio:rate` + window + `{tool="$tool"} / on (tool) ` + allowed, window}
	}
	return titled("tool", "Toolbus: tool", "now-7d").
		WithVariable(choice("tool", `tool_invocation_count_total`)).
		WithPanel(number("Success rate of seven days", percent, `1 - `+failed+` / `+runs)).
		WithPanel(number("Objective", percent, `tool:success_rate_min{tool="$tool"}`)).
		WithPanel(number("Error budget of seven days that is left", percent,
			`1 - `+failed+` / `+runs+` / on (tool) `+allowed)).
		WithPanel(number("Runs under way", short, `sum(toolbus_run_active{tool="$tool"})`)).
		WithPanel(graph("Calls a second", perSecond,
			query{`sum by (action, status) (rate(tool_invocation_count_total` + of + `))`, "{{action}} {{status}}"})).
		WithPanel(graph("Use of the error budget: 1 uses it up in seven days", short,
			burn("5m"), burn("1h"), burn("30m"), burn("6h"))).
		WithPanel(graph("Duration", seconds, latency("0.5", "p50"), latency("0.95", "p95"), latency("0.99", "p99"),
			query{`tool:p95_latency_seconds_max{tool="$tool"}`, "objective of p95"})).
		WithPanel(graph("Errors a second", perSecond,
			query{`sum by (error_code) (rate(tool_error_count_total` + of + `))`, "{{error_code}}"})).
		WithPanel(graph("Runs under way", short,
			query{`sum by (version) (toolbus_run_active{tool="$tool"})`, "{{version}}"})).
		WithPanel(graph("Repeated, joined, answered again and late, a second", perSecond,
			query{`sum(rate(tool_retry_count_total` + of + `))`, "repeated"},
			query{`sum(rate(toolbus_join_count_total` + of + `))`, "joined"},
			query{`sum(rate(toolbus_replay_count_total` + of + `))`, "answered again"},
			query{`sum(rate(toolbus_late_count_total` + of + `))`, "late"}))
}

func tenant() *dashboard.DashboardBuilder {
	const outcomes, refusals = `toolbus_outcome_count_total`, `toolbus_refusal_count_total`
	const rate, of = `[$__rate_interval]`, `{tenant="$tenant"}[$__rate_interval]`
	const open = `max(toolbus_call_open{tenant="$tenant"}) or vector(0)` // without open calls there is no series
	share := func(counter string) string {
		return `sum(rate(` + counter + of + `)) / sum(rate(` + counter + rate + `))`
	}
	return titled("tenant", "Toolbus: tenant", "now-6h").
		WithVariable(choice("tenant", `{__name__=~"`+outcomes+`|`+refusals+`"}`)).
		WithPanel(number("Calls a second", perSecond, `sum(rate(`+outcomes+of+`))`)).
		WithPanel(number("Success rate", percent,
			`sum(rate(`+outcomes+`{tenant="$tenant",status="success"}`+rate+`)) / sum(rate(`+outcomes+of+`))`)).
		WithPanel(number("Refusals a second", perSecond, `sum(rate(`+refusals+of+`))`)).
		WithPanel(number("Open calls", short, open)).
		WithPanel(graph("Outcomes a second", perSecond,
			query{`sum by (status) (rate(` + outcomes + of + `))`, "{{status}}"})).
		WithPanel(graph("Outcomes a second by who decided", perSecond,
			query{`sum by (by) (rate(` + outcomes + of + `))`, "{{by}}"})).
		WithPanel(graph("Refusals a second", perSecond,
			query{`sum by (stage, error_code) (rate(` + refusals + of + `))`, "{{stage}} {{error_code}}"})).
		WithPanel(graph("Open calls", short, query{open, "open"})).
		WithPanel(graph("Share of the calls of all tenants", percent,
			query{share(outcomes), "outcomes"}, query{share(refusals), "refusals"})).
		WithPanel(graph("Outcomes a second of each tenant", perSecond,
			query{`topk(10, sum by (tenant) (rate(` + outcomes + rate + `)))`, "{{tenant}}"}))
}

func bus() *dashboard.DashboardBuilder {
	const rate = `[$__rate_interval]`
	return titled("bus", "Toolbus: bus", "now-6h").
		WithPanel(number("Dispatchers", short, `count(toolbus_follower_lag_seconds)`)).
		WithPanel(number("Policy revision", short, `max(toolbus_policy_revision)`)).
		WithPanel(number("Safety locks", short, `max(toolbus_lock_active)`)).
		WithPanel(number("Dead letters", short, `max(toolbus_stream_messages{stream="DEAD"})`)).
		WithPanel(graph("Calls that wait", short, query{`max by (pool) (toolbus_queue_depth)`, "{{pool}}"})).
		WithPanel(graph("Age of the oldest call that waits", seconds,
			query{`max by (pool) (toolbus_queue_age_seconds)`, "{{pool}}"})).
		WithPanel(graph("95th percentile of the time in the queue", seconds,
			query{`histogram_quantile(0.95, sum by (pool, le) (rate(toolbus_queue_duration_seconds_bucket` + rate + `)))`,
				"{{pool}}"})).
		WithPanel(graph("Lag", seconds, query{`max(toolbus_follower_lag_seconds)`, "dispatcher"},
			query{`max(toolbus_record_lag_seconds)`, "audit record"})).
		WithPanel(graph("How full streams are", percent, query{
			`max by (stream) (toolbus_stream_size_bytes) / max by (stream) (toolbus_stream_limit_bytes)`, "{{stream}}"})).
		WithPanel(graph("Size of streams", size, query{`max by (stream) (toolbus_stream_size_bytes)`, "{{stream}}"})).
		WithPanel(graph("Refusals a second", perSecond,
			query{`sum by (stage, error_code) (rate(toolbus_refusal_count_total` + rate + `))`, "{{stage}} {{error_code}}"})).
		WithPanel(graph("Tokens and connections, a second", perSecond,
			query{`sum(rate(toolbus_token_renewal_count_total` + rate + `))`, "tokens renewed"},
			query{`sum(rate(toolbus_token_refusal_count_total` + rate + `))`, "tokens refused"},
			query{`sum(rate(toolbus_connection_refusal_count_total` + rate + `))`, "connections refused"})).
		WithPanel(graph("Replicas that are away or behind", short,
			query{`max by (stream) (toolbus_replica_away)`, "{{stream}}"})).
		WithPanel(graph("Difference of clocks", seconds,
			query{`max by (instance) (abs(toolbus_clock_offset_seconds))`, "{{instance}}"}))
}

func titled(name, title, from string) *dashboard.DashboardBuilder {
	return dashboard.NewDashboardBuilder(title).Uid("toolbus-"+name).Tags([]string{"toolbus"}).Readonly().
		Time(from, "now").Refresh("1m").WithVariable(dashboard.NewDatasourceVariableBuilder("source").Type("prometheus"))
}

// choice is a variable with the values that a label of series has, by its name.
func choice(label, series string) *dashboard.QueryVariableBuilder {
	values := "label_values(" + series + ", " + label + ")"
	return dashboard.NewQueryVariableBuilder(label).Datasource(source()).Query(dashboard.StringOrMap{String: &values}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc)
}

func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${source}")}
}

// number is a panel with one value, a quarter of the width.
func number(title, unit, expr string) *stat.PanelBuilder {
	return stat.NewPanelBuilder().Title(title).Unit(unit).Span(6).Height(4).Datasource(source()).
		WithTarget(prometheus.NewDataqueryBuilder().Expr(expr).Instant().RefId("A"))
}

// graph is a panel with series over time, half of the width.
func graph(title, unit string, queries ...query) *timeseries.PanelBuilder {
	p := timeseries.NewPanelBuilder().Title(title).Unit(unit).Min(0).Span(12).Height(8).Datasource(source())
	for i, q := range queries {
		p.WithTarget(prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.legend).RefId(string(rune('A' + i))))
	}
	return p
}

// The dashboards are what this package makes.
func TestDashboards(t *testing.T) {
	for name, builder := range dashboards() {
		d, err := builder.Build()
		if err != nil {
			t.Fatal(err)
		}
		made, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		inSync(t, "dashboards/"+name+".json", append(made, '\n'))
	}
}

// inSync compares a file of deploy/observability with what is made.
func inSync(t *testing.T, name string, made []byte) {
	t.Helper()
	file := filepath.Join(kept, name)
	if *update {
		if err := os.WriteFile(file, made, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(file); err != nil || !bytes.Equal(old, made) {
		t.Errorf("%s is not what is made (%v): go test ./test/observability -args -update", file, err)
	}
}
