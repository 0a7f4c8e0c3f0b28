package mcp_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
)

// The duration of each request is measured by method and error. A call has a span below the one that its client names,
// and the call on the bus has the same trace, with that span as its parent.
func TestSignals(t *testing.T) {
	f, reader, spans := start(t), sdkmetric.NewManualReader(), tracetest.NewInMemoryExporter()
	door := mcp.New(t.Context(), f.Client, mcp.Options{})
	mcp.Measure(door, sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	const traceID, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	each(t, door, f, nil, func(t *testing.T, c *sdk.ClientSession) {
		spans.Reset()
		before := measured(t, reader)
		meta := sdk.Meta{"traceparent": "00-" + traceID + "-" + parent + "-01"}
		heard := hears(t, f)
		if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{
			Meta: meta, Name: "echo", Arguments: text{"heard"},
		}); err != nil {
			t.Fatal(err)
		}
		if res, err := c.CallTool(t.Context(), &sdk.CallToolParams{
			Name: "fail", Arguments: text{"x"},
		}); err != nil || !res.IsError {
			t.Fatal(res, err)
		}
		if _, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "nothing", Arguments: text{}}); err == nil {
			t.Fatal("an unknown tool is called")
		}
		after := measured(t, reader)
		for name, n := range map[string]uint64{
			"tools/call": 1, "tools/call tool_error": 1, "tools/call -32602": 1,
		} {
			if got := after[name] - before[name]; got != n {
				t.Errorf("%s: %d requests, not %d", name, got, n)
			}
		}
		ended := spans.GetSpans()
		if len(ended) != 3 {
			t.Fatalf("%d spans", len(ended))
		}
		of := ended[0]
		below := envelope.RequestContext{
			TraceID: uuid.UUID(of.SpanContext.TraceID()).String(), ParentSpanID: of.SpanContext.SpanID().String(),
		}
		if got := <-heard; got.TraceID != below.TraceID || got.ParentSpanID != below.ParentSpanID {
			t.Errorf("the call is part of %+v, not of %+v", got, below)
		}
		if of.Name != "tools/call echo" || of.SpanContext.TraceID().String() != traceID ||
			of.Parent.SpanID().String() != parent {
			t.Errorf("%+v", of)
		}
		if ended[1].SpanContext.TraceID().String() == traceID || ended[1].Status.Description != "tool_error" {
			t.Errorf("%+v", ended[1])
		}
	})
}

// measured returns the number of requests by method and error.
func measured(t *testing.T, reader sdkmetric.Reader) map[string]uint64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]uint64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			h, ok := m.Data.(metricdata.Histogram[float64])
			if !ok || m.Name != "mcp.server.operation.duration" || m.Unit != "s" {
				t.Fatalf("%+v", m)
			}
			for _, p := range h.DataPoints {
				method, _ := p.Attributes.Value("mcp.method.name")
				name := method.AsString()
				if failed, is := p.Attributes.Value("error.type"); is {
					name += " " + failed.AsString()
				}
				found[name] += p.Count
			}
		}
	}
	return found
}

// hears returns the trace of the request with the text "heard".
func hears(t *testing.T, f *fixture) <-chan envelope.RequestContext {
	t.Helper()
	heard := make(chan envelope.RequestContext, 10)
	sub, err := f.Conn.NATS().Subscribe(">", func(m *nats.Msg) {
		var req envelope.Request
		if json.Unmarshal(m.Data, &req) == nil && strings.Contains(string(req.Input), "heard") && req.Context.TraceID != "" {
			heard <- envelope.RequestContext{TraceID: req.Context.TraceID, ParentSpanID: req.Context.ParentSpanID}
		}
	})
	if err := errors.Join(err, f.Conn.NATS().Flush()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() }) // fails only if the connection is closed
	return heard
}
