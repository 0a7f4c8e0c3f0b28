package telemetry_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/telemetry"
)

// decided is the event of an outcome that the first attempt at a tool has.
func decided(tool string, code envelope.Code, won bool) call.TraceEvent {
	return call.TraceEvent{
		At: call.TraceAfterDecide, Attempt: 1, Won: won,
		State: call.State{
			Pinned:   call.Pinned{Tool: tool, Version: "1.0.0", Fn: "run", Pool: "default"},
			Attempts: []call.Attempt{{N: 1, Decision: &call.Decision{Status: code.Status(), Code: code, By: call.ByExecutor}}},
		},
	}
}

// points returns the sums of a counter by their attributes.
func points(t *testing.T, r *sdkmetric.ManualReader, name string) map[string]int64 {
	t.Helper()
	var found metricdata.ResourceMetrics
	if err := r.Collect(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	all := map[string]int64{}
	for _, one := range found.ScopeMetrics[0].Metrics {
		if sum, ok := one.Data.(metricdata.Sum[int64]); ok && one.Name == name {
			for _, p := range sum.DataPoints {
				tool, _ := p.Attributes.Value("tool")
				code, _ := p.Attributes.Value("error_code")
				all[tool.AsString()+" "+code.AsString()] += p.Value
			}
		}
	}
	return all
}

// Tools and codes beyond the limits are counted together, with one warning; an outcome that another process has written
// is not counted.
func TestSeriesAreBounded(t *testing.T) {
	var log strings.Builder
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader), sdkmetric.WithCardinalityLimit(0))
	m, err := telemetry.NewMeter(provider,
		slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	inner := 0
	trace := m.Trace(call.Trace{Event: func(context.Context, call.TraceEvent) { inner++ }})
	const codes, tools = 130, 10_050
	for i := range codes {
		trace.Event(t.Context(), decided("one", envelope.Code(fmt.Sprintf("S-TOOL-%d", i)), true))
	}
	got := points(t, reader, "tool.error.count")
	if len(got) != 101 || got["one other"] != 30 || got["one S-TOOL-99"] != 1 {
		t.Errorf("%d series, %d others", len(got), got["one other"])
	}
	for i := range tools {
		trace.Event(t.Context(), decided(fmt.Sprint("t", i), "", true))
	}
	trace.Event(t.Context(), decided("t1", "", false))
	got = points(t, reader, "tool.invocation.count")
	if len(got) != 10_001 || got["other "] != 51 || got["t1 "] != 1 {
		t.Errorf("%d series, %d others, %d", len(got), got["other "], got["t1 "])
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings: %s", n, &log)
	}
	late := decided("one", "", false)
	late.At = call.TraceLate
	trace.Event(t.Context(), late)
	if got := points(t, reader, "toolbus.late.count"); got["one "] != 1 {
		t.Errorf("late results: %v", got)
	}
	if inner != codes+tools+2 {
		t.Errorf("the inner hooks were called %d times", inner)
	}
}

// BenchmarkMeter measures what metrics cost a call: its outcome, and its run.
func BenchmarkMeter(b *testing.B) {
	m, err := telemetry.NewMeter(sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())), nil)
	if err != nil {
		b.Fatal(err)
	}
	trace, e := m.Trace(call.Trace{}), decided("one", "", true)
	run := call.TraceEvent{At: call.TraceRun, State: e.State, Attempt: 1}
	b.ReportAllocs()
	for b.Loop() {
		_, _, end := trace.Begin(b.Context(), run)
		end(call.TraceEvent{})
		trace.Event(b.Context(), e)
	}
}
