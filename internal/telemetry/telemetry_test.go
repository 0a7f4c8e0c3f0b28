package telemetry_test

import (
	"strings"
	"sync/atomic"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/telemetry"
	"github.com/seed-018f16cc/toolbus/internal/telemetry/otlp"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The executor's span is the child of the dispatcher's, and both are in the trace that the request names.
func TestLinkedAcrossProcesses(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	dispatcher := telemetry.Of(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	executor := telemetry.Of(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	req := &envelope.Request{CallID: "c", ToolID: "web.fetch", Fn: "fetch"}
	req.Context.TraceID = "0af76519-16cd-43dd-8448-eb211c80319c"
	req.Context.ParentSpanID = "b7ad6b71-6920-3331-0000-000000000000"
	req.Constraints.IdempotencyKey = "0123456789abcdef"

	ask := &call.AdmitRequest{Pinned: call.Pinned{Tool: "web.fetch", ID: "id", Version: "1.0.0", Class: call.Pure}}
	parent := admit(t, dispatcher, ask, req, call.TraceAfterAdmit)
	s := call.State{Pinned: ask.Pinned, Attempts: []call.Attempt{{N: 1, Owner: call.Owner{CallID: "c", Parent: parent}}}}
	traceparent := run(t, executor, s, req, envelope.NewError(envelope.CodeLost, "it quotes its input"))

	got := spans.GetSpans()
	if len(got) != 2 {
		t.Fatalf("%d spans", len(got))
	}
	admit, run := got[0], got[1]
	if admit.SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" ||
		run.SpanContext.TraceID() != admit.SpanContext.TraceID() {
		t.Errorf("traces %s, %s", admit.SpanContext.TraceID(), run.SpanContext.TraceID())
	}
	if admit.Parent.SpanID().String() != "b7ad6b7169203331" || run.Parent.SpanID() != admit.SpanContext.SpanID() {
		t.Errorf("parents %s, %s", admit.Parent.SpanID(), run.Parent.SpanID())
	}
	want := "00-0af7651916cd43dd8448eb211c80319c-" + run.SpanContext.SpanID().String() + "-01"
	if traceparent != want {
		t.Errorf("the traceparent of the run is %q, want %q", traceparent, want)
	}
	if want := envelope.Lookup(envelope.CodeLost).Message; run.Status.Description != want {
		t.Errorf("status %q, want %q", run.Status.Description, want)
	}
	attributes := map[string]string{
		"tool.name": "web.fetch", "tool.version": "1.0.0", "tool.origin": "mcp", "effect.level": "Pure",
		"determinism": "pure", "idempotency_key_prefix": "01234567", "error.type": string(envelope.CodeLost),
	}
	for _, name := range []string{"determinism", "idempotency_key_prefix"} {
		if got := attribute(admit, name); got != attributes[name] {
			t.Errorf("the admission has %s %q", name, got)
		}
	}
	for _, kv := range run.Attributes {
		if w, ok := attributes[string(kv.Key)]; ok && kv.Value.AsString() == w {
			delete(attributes, string(kv.Key))
		}
	}
	if len(attributes) > 0 {
		t.Errorf("attributes missing: %v", attributes)
	}
}

// admit runs the hooks of an admission that ends with last.
func admit(
	t *testing.T, tr telemetry.Tracer, ask *call.AdmitRequest, req *envelope.Request, last call.TracePoint,
) (parent string) {
	admission := call.TraceEvent{At: call.TraceAdmit, State: call.State{Pinned: ask.Pinned}, Attempt: 1, Request: req}
	_, parent, end := tr.Trace().Begin(t.Context(), admission)
	end(call.TraceEvent{At: last})
	return parent
}

// run runs the hooks of a run of the first attempt that ends with e, and returns its traceparent.
func run(
	t *testing.T, tr telemetry.Tracer, s call.State, req *envelope.Request, e *envelope.Error,
) (traceparent string) {
	begun := call.TraceEvent{At: call.TraceRun, State: s, Attempt: 1, Request: req, Effect: "Pure", Origin: "mcp"}
	_, traceparent, end := tr.Trace().Begin(t.Context(), begun)
	end(call.TraceEvent{At: call.TraceAfterEffect, Error: e})
	return traceparent
}

// attribute returns the value of an attribute of a span.
func attribute(s tracetest.SpanStub, name string) string {
	for _, kv := range s.Attributes {
		if string(kv.Key) == name {
			return kv.Value.AsString()
		}
	}
	return ""
}

// A request that is not admitted has no span "admit". A refused request has a span with the reason, in the trace of its
// caller. A span contains the reference of its call.
func TestAdmittedOrNot(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	tr := telemetry.Of(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	req := &envelope.Request{CallID: "c", ToolID: "web.fetch", Fn: "fetch"}
	req.Context.TraceID = "0af76519-16cd-43dd-8448-eb211c80319c"
	ask := &call.AdmitRequest{Pinned: call.Pinned{Tool: "web.fetch", ID: "id"}}
	admit(t, tr, ask, req, "")
	admit(t, tr, ask, req, call.TraceAfterAdmit)
	refused := call.TraceEvent{At: call.TraceRefused, Tool: "web.fetch", Request: req, Stage: "schema"}
	refused.Error = envelope.NewError(envelope.CodeSchema, "it quotes its input")
	tr.Trace().Event(t.Context(), refused)
	refused.Request = nil
	tr.Trace().Event(t.Context(), refused)
	tr.Trace().Event(t.Context(), call.TraceEvent{At: call.TraceReceived})

	got := spans.GetSpans()
	const refuse = "refuse web.fetch"
	if len(got) != 3 || got[0].Name != "admit web.fetch" || got[1].Name != refuse || got[2].Name != refuse {
		t.Fatalf("spans %v", got)
	}
	if ref := attribute(got[0], "call.ref"); ref != (subjects.Key{Tool: "web.fetch", ID: "id"}).Ref() {
		t.Errorf("the admitted call is %s", ref)
	}
	span := got[1]
	if span.SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" ||
		attribute(span, "error.type") != string(envelope.CodeSchema) || attribute(span, "refused.at") != "schema" ||
		attribute(span, "call.id") != "c" || span.Status.Description != envelope.Lookup(envelope.CodeSchema).Message {
		t.Errorf("refused: %+v", span)
	}
}

// A request that joins an attempt, or gets its outcome, has a span in its own trace with a link to the admission.
func TestShared(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	tr := telemetry.Of(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	const admission, span = "11111111111111111111111111111111", "2222222222222222"
	s := call.State{Attempts: []call.Attempt{{N: 1, Owner: call.Owner{Parent: "00-" + admission + "-" + span + "-01"}}}}
	s.Tool = "web.fetch"
	req := &envelope.Request{CallID: "c", ToolID: "web.fetch", Fn: "fetch"}
	req.Context.TraceID = "0af76519-16cd-43dd-8448-eb211c80319c"
	hooks := tr.Trace()
	hooks.Share(t.Context(), call.TraceAfterJoin, &s, 1, req)
	hooks.Share(t.Context(), call.TraceReplayed, &s, 1, req)
	got := spans.GetSpans()
	if len(got) != 2 || got[0].Name != "join web.fetch" || got[1].Name != "replay web.fetch" {
		t.Fatalf("spans %v", got)
	}
	for _, one := range got {
		if one.SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" || attribute(one, "call.id") != "c" ||
			len(one.Links) != 1 || one.Links[0].SpanContext.TraceID().String() != admission ||
			one.Links[0].SpanContext.SpanID().String() != span {
			t.Errorf("%+v", one)
		}
	}
}

// A run whose admission was not traced, or names no span, is in the trace that its request names. A request without a
// valid trace id starts a trace.
func TestWithoutParent(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	tr := telemetry.Of(sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)))
	s := call.State{Attempts: []call.Attempt{{N: 1}}}
	const trace, span = "1111111111111111111111111111111f", "222222222222222f"
	for _, parent := range []string{
		"", "00-" + trace + "-" + span, "00-" + trace + "-" + span + "-0x", "00-" + trace + "-" + span + "-0101",
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01", "00-" + trace[1:] + "-" + span + "-01",
	} {
		s.Attempts[0].Owner.Parent = parent
		for _, id := range []string{"0af76519-16cd-43dd-8448-eb211c80319c", "nonsense"} {
			req := &envelope.Request{ToolID: "echo"}
			req.Context.TraceID = id
			run(t, tr, s, req, nil)
		}
		got := spans.GetSpans()
		if got[0].SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" ||
			!got[1].SpanContext.TraceID().IsValid() || got[1].SpanContext.TraceID().String() == trace {
			t.Errorf("%q: traces %s, %s", parent, got[0].SpanContext.TraceID(), got[1].SpanContext.TraceID())
		}
		spans.Reset()
	}
}

func TestOpenBadEndpoint(t *testing.T) {
	if _, err := otlp.Traces(t.Context(), "x", "http://127.0.0.1:4318", 1, new(atomic.Int64)); err != nil {
		t.Errorf("a collector that is not there yet is no error: %v", err)
	}
}
