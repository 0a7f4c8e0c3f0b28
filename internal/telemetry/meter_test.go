package telemetry_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"

	otelattribute "go.opentelemetry.io/otel/attribute"
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
	late.At = call.TraceTakenOver
	trace.Event(t.Context(), late)
	if got := points(t, reader, "toolbus.run.takeover.count"); got["one "] != 1 {
		t.Errorf("runs taken over: %v", got)
	}
	if inner != codes+tools+3 {
		t.Errorf("the inner hooks were called %d times", inner)
	}
}

// Tenants beyond the limit are counted together, also in the numbers of the deployment, with one warning. No series
// has a tenant and a tool.
func TestTenantsAreBounded(t *testing.T) {
	var log strings.Builder
	reader := sdkmetric.NewManualReader()
	m, err := telemetry.NewMeter(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	const tenants = 230
	stop, err := m.Watch(func(_ context.Context, say telemetry.Say) {
		for i := range tenants {
			say(telemetry.CallsOpen, fmt.Sprint("tenant-", i), 2)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	trace := m.Trace(call.Trace{})
	for i := range tenants {
		e := decided("one", "", true)
		e.State.Tenant = fmt.Sprint("tenant-", i)
		trace.Event(t.Context(), e)
		e.At, e.Stage, e.Error = call.TraceRefused, "schema", envelope.NewError(envelope.CodeSchema, "")
		trace.Event(t.Context(), e)
	}
	got := map[string]float64{}
	for name, value := range byTenant(t, reader) {
		series, tenant, _ := strings.Cut(name, " ")
		got[series]++
		if tenant == "other" {
			got[name] = value
		}
	}
	want := map[string]float64{
		"toolbus.outcome.count": 201, "toolbus.outcome.count other": 30, "toolbus.refusal.count": 201,
		"toolbus.refusal.count other": 30, "toolbus.call.open": 201, "toolbus.call.open other": 60,
	}
	if !maps.Equal(want, got) {
		t.Errorf("%v, want %v", got, want)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings: %s", n, &log)
	}
	stop()
	if _, open := byTenant(t, reader)["toolbus.call.open other"]; open {
		t.Error("calls are open after the end")
	}
}

// byTenant returns the values of the series with a tenant, by their name and tenant.
func byTenant(t *testing.T, r *sdkmetric.ManualReader) map[string]float64 {
	t.Helper()
	var found metricdata.ResourceMetrics
	if err := r.Collect(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	add := func(name string, of otelattribute.Set, value float64) {
		tenant, ok := of.Value("tenant")
		if ok {
			all[name+" "+tenant.AsString()] += value
		}
		if ok && of.HasValue("tool") {
			t.Errorf("%s has %v", name, of.Encoded(otelattribute.DefaultEncoder()))
		}
	}
	for _, one := range found.ScopeMetrics[0].Metrics {
		switch data := one.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				add(one.Name, p.Attributes, float64(p.Value))
			}
		case metricdata.Gauge[float64]:
			for _, p := range data.DataPoints {
				add(one.Name, p.Attributes, p.Value)
			}
		}
	}
	return all
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
