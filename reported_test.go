package toolbus_test

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed-018f16cc/toolbus"
)

// reporting is a program that reports what its manifest declares, and what it must not.
const reporting = `#!/usr/bin/env bash
read -r request
echo '{"type":"metric","name":"pages","value":3}'
echo '{"type":"metric","name":"pages","value":2.5,"kind":"counter"}'
echo '{"type":"metric","name":"size","value":12,"kind":"histogram"}'
echo '{"type":"metric","name":"size","value":-7,"kind":"histogram"}'
echo '{"type":"attribute","name":"cache","value":"hit"}'
echo '{"type":"attribute","name":"rows","value":4}'
echo '{"type":"attribute","name":"tool.name","value":"another"}'
echo '{"type":"event","name":"PageFetched"}'
for i in 1 2; do
  echo '{"type":"metric","name":"made.up","value":1}'
  echo '{"type":"attribute","name":"pages","value":"a metric"}'
  echo '{"type":"event","name":"rows"}'
done
echo '{"type":"metric","name":"pages","value":-1}'
echo '{"type":"metric","name":"pages","value":"5"}'
echo '{"type":"metric","name":"pages","value":NaN}'
echo '{"type":"metric","name":"pages","value":1,"kind":"gauge"}'
echo '{"type":"metric","name":7,"value":1}'
echo '{"type":"metric","nam":"pages","value":1}'
echo '{"type":"attribute","name":"cache","value":{"a":1}}'
for ((i = 0; i < 100; i++)); do echo '{"type":"event","name":"PageFetched"}'; done
echo '{"type":"output","output":"done"}'
`

const reports = `tool_id: reporting
semver: 1.0.0
owner: "@team"
description: Reports of itself.
determinism: pure
schema: {request: {}, response: {}}
tier: T3
event_names: [PageFetched]
trace_attributes: [cache, rows, tool.name]
metrics: [pages, size]
`

// What a program reports of itself is exported if its manifest declares it, and dropped otherwise. Neither ends the
// call. The log warns of each dropped name once.
func TestReports(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "reporting", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "reporting", "tool.yaml"), reports)
	program := filepath.Join(dir, "reporting", "bin", "reporting")
	write(t, program, reporting)
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	tools := toolbus.NewToolset()
	if err := tools.AddFolder(dir); err != nil {
		t.Fatal(err)
	}
	m, spans, log := newMeter(), tracetest.NewInMemoryExporter(), &output{}
	tier := newMeter()
	b, stop := apart(t, tools, toolbus.Options{MeterProvider: tier.provider}, toolbus.Options{
		MeterProvider: m.provider, TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)),
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	c := client(t, b.URL, toolbus.ClientOptions{})
	const calls = 2
	for range calls {
		r, err := toolbus.Outcome(c.Call(t.Context(), toolbus.Call{Tool: "reporting", Input: []byte(`{}`)}))
		if err != nil || string(r.Output) != `"done"` {
			t.Fatalf("%v, %+v", err, r)
		}
	}
	if got := tier.numbers(t)["toolbus.tool.tier tool=reporting"]; got != 3 {
		t.Errorf("the tier is %v", got)
	}
	stop()
	const of = "tool=reporting,version=1.0.0"
	want := map[string]float64{
		"tool.metric.count metric=pages," + of: calls * 5.5, "tool.metric.value metric=size," + of: calls * 5,
		"toolbus.report.dropped.count " + of: calls * (6 + 7 + 1),
	}
	if diff := gocmp.Diff(want, m.reported(t)); diff != "" {
		t.Error(diff)
	}
	checkReportedSpans(t, spans.GetSpans(), calls)
	checkReportedLog(t, log.text.String(), calls)
}

// reported returns the sums of what tools have reported, by name and attributes.
func (m meter) reported(t *testing.T) map[string]float64 {
	t.Helper()
	var found metricdata.ResourceMetrics
	if err := m.Collect(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, one := range found.ScopeMetrics[0].Metrics {
		switch data := one.Data.(type) {
		case metricdata.Sum[float64]:
			for _, p := range data.DataPoints {
				all[seriesName(one.Name, p.Attributes)] += p.Value
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				all[seriesName(one.Name, p.Attributes)] += p.Sum
			}
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				all[seriesName(one.Name, p.Attributes)] += float64(p.Value)
			}
		}
	}
	maps.DeleteFunc(all, func(name string, _ float64) bool {
		return !strings.HasPrefix(name, "tool.metric.") && !strings.HasPrefix(name, "toolbus.report.")
	})
	return all
}

func checkReportedSpans(t *testing.T, spans tracetest.SpanStubs, calls int) {
	t.Helper()
	runs := 0
	for _, s := range spans {
		if s.Name != "execute_tool reporting" {
			continue
		}
		runs++
		of := map[string]string{}
		for _, kv := range s.Attributes {
			of[string(kv.Key)] = kv.Value.String()
		}
		if of["cache"] != "hit" || of["rows"] != "4" || of["tool.name"] != "reporting" || of["pages"] != "" {
			t.Errorf("attributes %v", of)
		}
		names := map[string]int{}
		for _, e := range s.Events {
			names[e.Name]++
		}
		if !maps.Equal(names, map[string]int{"PageFetched": 100}) {
			t.Errorf("events %v", names)
		}
	}
	if runs != calls {
		t.Errorf("%d spans of runs", runs)
	}
}

func checkReportedLog(t *testing.T, log string, calls int) {
	t.Helper()
	if n := strings.Count(log, "event=tool_event name=PageFetched tool_id=reporting version=1.0.0"); n != 100*calls {
		t.Errorf("%d events in %s", n, log)
	}
	var warned []string
	for line := range strings.Lines(log) {
		const says = `msg="what a tool reports is dropped" tool_id=reporting version=1.0.0 name=`
		if _, rest, ok := strings.Cut(line, says); ok {
			name, _, _ := strings.Cut(rest, " ")
			if strings.Contains(rest, `unknown member \"nam\"`) {
				name = "nam"
			}
			warned = append(warned, name)
		}
	}
	slices.Sort(warned)
	want := []string{`""`, "PageFetched", "cache", "made.up", "nam", "pages", "pages", "pages", "pages", "rows"}
	if !slices.Equal(warned, want) {
		t.Errorf("warned of %q, want %q", warned, want)
	}
}
