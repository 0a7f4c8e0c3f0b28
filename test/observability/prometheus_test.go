package observability

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/deployment/processtest"
)

var asked = flag.Bool("prometheus", false, "check rules and queries with Prometheus, which must be installed")

// program returns the path of a program of Prometheus. It skips a test that was not asked for.
func program(t *testing.T, asked bool, name string) string {
	t.Helper()
	if !asked {
		t.Skip("needs Prometheus: go test ./test/observability -args -prometheus -rehearse")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: install it with `apt-get install prometheus`", err)
	}
	return path
}

// Promtool accepts the rules and the configuration of the Compose file, and the rules fire when they should.
func TestRules(t *testing.T) {
	promtool, dir := program(t, *asked, "promtool"), t.TempDir()
	processtest.Output(t, promtool, "check", "rules", "--lint-fatal", kept+"/alerts.yml")
	processtest.Output(t, promtool, "test", "rules", "testdata/alerts_test.yml")
	config := string(read(t, kept+"/prometheus.yml"))
	for name, text := range map[string]string{
		"prometheus.yml": strings.ReplaceAll(config, "/etc/toolbus/metrics/", ""), "token": "0123456789abcdef",
		"alerts.yml": string(read(t, kept+"/alerts.yml")),
	} {
		write(t, filepath.Join(dir, name), text)
	}
	processtest.Output(t, promtool, "check", "config", filepath.Join(dir, "prometheus.yml"))
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// missing are the queries that find nothing in a bus of one process with few calls.
var missing = []string{"tool_retry_count_total", "toolbus_join_count_total", "toolbus_late_count_total"}

// world is a bus of `toolbus dev` with a Prometheus that reads its metrics each second.
type world struct {
	*testing.T
	toolbus    string
	access     []string
	prometheus string // its address
}

// Every panel shows something, every rule can be evaluated, and the alert of a tool that fails too often fires.
func TestPrometheus(t *testing.T) {
	prometheus := program(t, *asked, "prometheus")
	w := start(t, prometheus)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	queries := append(exprs(t), `ALERTS{alertname="ToolErrorsBurnFast",alertstate="firing",tool="text.search",tier="T4"}`)
	for late := time.After(2 * time.Minute); ; {
		w.calls()
		queries = slices.DeleteFunc(queries, w.answers)
		bad := w.unhealthy()
		if len(queries) == 0 && len(bad) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("no data:\n%s\nrules that cannot be evaluated:\n%s", strings.Join(queries, "\n"), strings.Join(bad, "\n"))
		}
	}
}

func start(t *testing.T, prometheus string, tools ...string) *world {
	t.Helper()
	of, dir := processtest.Build(t, "../..", append(tools, "text_2esearch")...), t.TempDir()
	manifest := filepath.Join(of.Tools, "text_2esearch", "tool.yaml")
	write(t, manifest, string(read(t, manifest))+"\ntier: T4\nslo: {p95_latency_ms_max: 1000}\n")
	port, metrics := processtest.FreePort(t), fmt.Sprint("127.0.0.1:", processtest.FreePort(t))
	dev := exec.Command(of.Toolbus(), "dev", "--tools", of.Tools, "--data-dir", filepath.Join(dir, "state"),
		"--port", fmt.Sprint(port), "--http-listen", metrics)
	dev.Env = append(os.Environ(), "XDG_CONFIG_HOME="+dir, "XDG_STATE_HOME="+dir)
	processtest.Launch(t, dev).Await(t, "metrics: ")
	w := &world{T: t, toolbus: of.Toolbus(), access: []string{
		"--server", fmt.Sprint("nats://127.0.0.1:", port), "--credentials", filepath.Join(dir, "state/credentials/agent"),
	}}
	w.scrape(prometheus, of.Tools, metrics)
	return w
}

// soon is a rule that fires without a delay.
var soon = regexp.MustCompile(`(?m)^( +for): .*$`)

// scrape starts a Prometheus that reads the metrics of targets each second, and whose rules, those for a folder of
// tools, fire at once.
func (w *world) scrape(prometheus, tools string, targets ...string) {
	w.Helper()
	dir := w.TempDir()
	rules, config := filepath.Join(dir, "alerts.yml"), filepath.Join(dir, "prometheus.yml")
	write(w.T, rules, soon.ReplaceAllString(processtest.Output(w, w.toolbus, "gen", "alerts", "--tools", tools), "$1: 0s"))
	write(w.T, config, fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%s]\n"+
		"scrape_configs: [{job_name: toolbus, static_configs: [{targets: [%s]}]}]\n", rules, strings.Join(targets, ", ")))
	w.prometheus = fmt.Sprint("127.0.0.1:", processtest.FreePort(w))
	processtest.Start(w, "Server is ready", prometheus, "--config.file", config, "--storage.tsdb.path",
		filepath.Join(dir, "data"), "--web.listen-address", w.prometheus)
}

// calls makes a call that succeeds, one that fails, one that is refused, and one that gets the outcome of another.
func (w *world) calls() {
	for _, args := range [][]string{
		{`{"pattern":"needle"}`}, {`{"pattern":"x","paths":["nowhere"]}`}, {`{"pattern":1}`},
		{`{"pattern":"needle"}`, "--key", "0123456789abcdef"},
	} {
		w.call("text.search", args...)
	}
}

// call makes a call with an input and flags.
func (w *world) call(tool string, args ...string) {
	// The exit code says how a call has ended; that it was counted is what the queries show.
	_ = exec.Command(w.toolbus, slices.Concat(w.access, []string{"call", tool, "--input"}, args)...).Run()
}

// chosen returns the query of a panel with a value for each variable.
func chosen(expr, tool string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$tool", tool, "$tenant", "default").Replace(expr)
}

// answers reports whether Prometheus has data for a query, or need not have any.
func (w *world) answers(expr string) bool {
	w.Helper()
	return slices.ContainsFunc(missing, func(name string) bool { return strings.Contains(expr, name) }) ||
		slices.ContainsFunc(w.values(expr, "text.search"), func(value string) bool { return value != "NaN" })
}

// values returns what Prometheus has for the query of a panel about a tool.
func (w *world) values(expr, tool string) (all []string) {
	w.Helper()
	expr = chosen(expr, tool)
	var got struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
		Error string
	}
	w.get("query?query="+url.QueryEscape(expr), &got)
	if got.Error != "" {
		w.Fatalf("%s: %s", expr, got.Error)
	}
	for _, r := range got.Data.Result {
		all = append(all, fmt.Sprint(r.Value[1]))
	}
	return all
}

// unhealthy returns the rules that Prometheus could not evaluate.
func (w *world) unhealthy() (bad []string) {
	w.Helper()
	var got struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
	}
	w.get("rules", &got)
	if len(got.Data.Groups) != 3 {
		w.Fatalf("Prometheus has %d groups of rules, not 3", len(got.Data.Groups))
	}
	for _, g := range got.Data.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				bad = append(bad, fmt.Sprint(r))
			}
		}
	}
	return bad
}

func (w *world) get(what string, answer any) {
	w.Helper()
	r, err := http.Get("http://" + w.prometheus + "/api/v1/" + what)
	if err != nil {
		w.Fatal(err)
	}
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(answer); err != nil {
		w.Fatal(err)
	}
}
