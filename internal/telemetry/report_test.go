package telemetry_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/telemetry"
)

// reported is the event of a report of a tool.
func reported(kind call.ReportKind, name string) call.TraceEvent {
	e := decided("one", "", false)
	e.At, e.Report = call.TraceReported, &call.Report{Kind: kind, Name: name, Number: 1, Text: "reported"}
	return e
}

// A tool replaces no attribute that Toolbus sets on the span of its run.
func TestReportsReplaceNothing(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	hooks := telemetry.Of(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))).Trace()
	s := call.State{Attempts: []call.Attempt{{N: 1}}}
	begun := call.TraceEvent{
		At: call.TraceRun, State: s, Attempt: 1, Request: &envelope.Request{ToolID: "one"}, Effect: "Pure", Origin: "mcp",
	}
	names := []string{"mine"}
	for round := range 2 {
		ctx, _, end := hooks.Begin(t.Context(), begun)
		for _, name := range names {
			hooks.Event(ctx, reported(call.ReportAttribute, name))
		}
		end(call.TraceEvent{At: call.TraceAfterEffect, Error: envelope.NewError(envelope.CodeLost, "")})
		for _, kv := range spans.GetSpans()[round].Attributes {
			if mine := kv.Key == "mine"; mine != (kv.Value.AsString() == "reported") {
				t.Errorf("%s is %q", kv.Key, kv.Value.AsString())
			}
			names = append(names, string(kv.Key))
		}
	}
	if len(names) < 20 {
		t.Errorf("the spans have the attributes %v", names)
	}
}

// Metrics of tools, and warnings of what was dropped, are bounded.
func TestReportsAreBounded(t *testing.T) {
	var log strings.Builder
	reader := sdkmetric.NewManualReader()
	m, err := telemetry.NewMeter(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader),
		sdkmetric.WithCardinalityLimit(0)), nil)
	if err != nil {
		t.Fatal(err)
	}
	hooks := telemetry.NewLog(slog.New(slog.NewTextHandler(&log, nil)), 1).Trace(m.Trace(call.Trace{}))
	const names = 10_050
	for i := range names {
		hooks.Event(t.Context(), reported(call.ReportCounter, fmt.Sprint("m", i)))
		hooks.Event(t.Context(), reported(call.ReportDropped, fmt.Sprint("m", i)))
	}
	var found metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	for _, one := range found.ScopeMetrics[0].Metrics {
		if sums, ok := one.Data.(metricdata.Sum[float64]); ok && len(sums.DataPoints) != 10_001 {
			t.Errorf("%d series of %s", len(sums.DataPoints), one.Name)
		}
	}
	if got := points(t, reader, "toolbus.report.dropped.count"); got["one "] != names {
		t.Errorf("dropped: %v", got)
	}
	if n := strings.Count(log.String(), "level=WARN"); n != 1000 {
		t.Errorf("%d warnings", n)
	}
}
