package telemetry_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/telemetry"
	"github.com/seed-018f16cc/toolbus/internal/telemetry/otlp"
)

// The prefix of a key in a span is valid UTF-8 wherever it is cut, because a batch with an invalid string is not sent
// at all.
func TestKeyOfManyBytes(t *testing.T) {
	var paths []string
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
	}))
	defer collector.Close()
	tr, err := otlp.Traces(t.Context(), "executor", collector.URL+"/v1/traces", 1, new(atomic.Int64))
	if err != nil {
		t.Fatal(err)
	}
	req := &envelope.Request{ToolID: "echo"}
	req.Constraints.IdempotencyKey = "k" + strings.Repeat("é", 8)
	run(t, telemetry.Of(tr), call.State{Attempts: []call.Attempt{{N: 1}}}, req, nil)
	if err := tr.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if len(paths) != 1 || paths[0] != "/v1/traces" {
		t.Errorf("the collector was sent %q", paths)
	}
}

// Processes with the same ratio send the same share of traces, whose ids are UUIDs.
func TestTraceRatio(t *testing.T) {
	collector := httptest.NewServer(http.NotFoundHandler())
	defer collector.Close()
	tracer := func(ratio float64) trace.Tracer {
		p, err := otlp.Traces(t.Context(), "x", collector.URL, ratio, new(atomic.Int64))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Shutdown(context.WithoutCancel(t.Context())) }) // the collector takes nothing
		return p.Tracer("")
	}
	one, other, all, sent := tracer(0.2), tracer(0.2), tracer(1), 0
	const traces = 5000
	for range traces {
		parent := trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID(uuid.New()), SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled, Remote: true,
		})
		ctx := trace.ContextWithRemoteSpanContext(t.Context(), parent)
		samples := func(by trace.Tracer) bool {
			_, span := by.Start(ctx, "x")
			return span.SpanContext().IsSampled()
		}
		if samples(one) {
			sent++
		}
		if samples(one) != samples(other) || !samples(all) {
			t.Fatalf("%s: %t, %t, %t", parent.TraceID(), samples(one), samples(other), samples(all))
		}
	}
	if sent < traces*15/100 || sent > traces*25/100 {
		t.Errorf("%d of %d traces are sent, want a fifth", sent, traces)
	}
}

// A collector whose endpoint for traces has another path than that of the specification is sent no metrics.
func TestMetricsWithoutEndpoint(t *testing.T) {
	for endpoint, sends := range map[string]bool{
		"http://127.0.0.1:4318/v1/traces": true, "http://127.0.0.1:4318/ingest": false,
	} {
		r, err := otlp.Metrics(t.Context(), endpoint)
		if err != nil || (r != nil) != sends {
			t.Errorf("%s: %v, %v", endpoint, r, err)
		}
	}
}
