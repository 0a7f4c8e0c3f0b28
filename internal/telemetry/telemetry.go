package telemetry

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Tracer creates the spans of one process.
type Tracer struct{ tracer trace.Tracer }

// Of returns a Tracer that uses provider. The caller must shut provider down.
func Of(provider trace.TracerProvider) Tracer {
	return Tracer{provider.Tracer("github.com/seed-018f16cc/toolbus")}
}

// Trace returns the hooks that create the spans.
func (t Tracer) Trace() call.Trace {
	return call.Trace{
		Begin: func(ctx context.Context, s call.TraceEvent) (context.Context, string, func(call.TraceEvent)) {
			if s.At == call.TraceRun {
				return t.run(ctx, s)
			}
			return t.admit(ctx, s)
		},
		Event: func(ctx context.Context, s call.TraceEvent) {
			switch s.At {
			case call.TraceRefused:
				t.refuse(ctx, s)
			case call.TraceReported:
				report(trace.SpanFromContext(ctx), s.Report)
			case call.TraceAfterJoin:
				t.share(ctx, "join ", s)
			case call.TraceReplayed:
				t.share(ctx, "replay ", s)
			}
		},
	}
}

// admit starts the span of an attempt that may be admitted, in the trace that the request names. If nothing is
// admitted, the span is not ended and so not exported. That is the case for most repeated requests.
func (t Tracer) admit(ctx context.Context, s call.TraceEvent) (context.Context, string, func(call.TraceEvent)) {
	req := s.Request
	ctx, span := t.tracer.Start(requested(ctx, req), "admit "+req.ToolID, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(
			attribute.String("tool.name", req.ToolID), attribute.String("tool.version", s.State.Version),
			attribute.String("tool.fn", req.Fn),
			attribute.String("call.id", req.CallID), attribute.String("call.ref", s.State.Ref()),
			attribute.String("messaging.system", "nats"), attribute.String("messaging.operation.type", "send"),
		), trace.WithAttributes(asked(s)...), trace.WithAttributes(nature(s)...))
	return ctx, parent(ctx), func(last call.TraceEvent) {
		if last.At == call.TraceAfterAdmit {
			span.End()
		}
	}
}

// nature returns the attributes for the effect and the origin of the tool, as far as they are known.
func nature(s call.TraceEvent) (all []attribute.KeyValue) {
	if s.Effect != "" {
		all = append(all, attribute.String("effect.level", s.Effect))
	}
	if s.Origin != "" {
		all = append(all, attribute.String("tool.origin", s.Origin))
	}
	return all
}

// parent returns the W3C traceparent of the span in ctx, or "" without a valid one.
func parent(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return ""
	}
	return fmt.Sprintf("00-%s-%s-%s", span.TraceID(), span.SpanID(), span.TraceFlags())
}

// below returns ctx with the span of a traceparent that [parent] has returned; ok is false for "".
func below(ctx context.Context, traceparent string) (_ context.Context, ok bool) {
	if traceparent == "" { // the usual case without traces
		return ctx, false
	}
	parts := strings.Split(traceparent, "-")
	if len(parts) != 4 {
		return ctx, false
	}
	traceID, bad := trace.TraceIDFromHex(parts[1])
	spanID, err := trace.SpanIDFromHex(parts[2])
	flags, other := hex.DecodeString(parts[3])
	if errors.Join(bad, err, other) != nil || len(flags) != 1 {
		return ctx, false
	}
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(flags[0]), Remote: true,
	})), true
}

// refuse creates the span of a refused request, in the trace that the request names. The span has no duration.
func (t Tracer) refuse(ctx context.Context, s call.TraceEvent) {
	req := s.Request
	if req == nil {
		req = new(envelope.Request)
	}
	_, span := t.tracer.Start(requested(ctx, req), "refuse "+s.Tool, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("tool.name", s.Tool), attribute.String("tool.fn", req.Fn), attribute.String("call.id", req.CallID),
			attribute.String("call.status", string(s.Error.Code.Status())), attribute.String("error.type", string(s.Error.Code)),
			attribute.String("refused.at", s.Stage),
		), trace.WithAttributes(nature(s)...))
	span.SetStatus(codes.Error, envelope.Lookup(s.Error.Code).Message)
	span.End()
}

// share creates the span of a request that shares the attempt of another one, in the trace that the request names. It
// has no duration, and a link to the span of the admission.
func (t Tracer) share(ctx context.Context, does string, s call.TraceEvent) {
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("tool.name", s.State.Tool), attribute.String("tool.version", s.State.Version),
		attribute.String("tool.fn", s.Request.Fn), attribute.String("call.id", s.Request.CallID),
		attribute.String("call.ref", s.State.Ref()), attribute.Int("call.attempt", s.Attempt),
	)}
	a, _ := s.State.Attempt(s.Attempt)
	if admitted, known := below(ctx, a.Owner.Parent); known {
		options = append(options, trace.WithLinks(trace.LinkFromContext(admitted)))
	}
	_, span := t.tracer.Start(requested(ctx, s.Request), does+s.State.Tool, options...)
	span.End()
}

// keyPrefix is the number of bytes of an idempotency key in a span.
const keyPrefix = 8

// asked returns the attributes that 000 §9 demands of the span of a call.
func asked(s call.TraceEvent) []attribute.KeyValue {
	c := s.Request.Constraints
	prefix := c.IdempotencyKey[:min(len(c.IdempotencyKey), keyPrefix)]
	return []attribute.KeyValue{
		attribute.String("determinism", string(s.State.Class)), attribute.Int64("timeout_ms", c.TimeoutMS),
		attribute.String("idempotency_key_prefix", strings.ToValidUTF8(prefix, "")), // the cut may be inside a UTF-8 sequence
	}
}

// run starts the span of a run. The tool may also fail to start.
func (t Tracer) run(ctx context.Context, s call.TraceEvent) (context.Context, string, func(call.TraceEvent)) {
	a, _ := s.State.Attempt(s.Attempt)
	from, known := below(ctx, a.Owner.Parent)
	if !known {
		from = requested(ctx, s.Request)
	}
	ctx, span := t.tracer.Start(from, "execute_tool "+s.State.Tool, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", s.State.Tool),
			attribute.String("gen_ai.tool.call.id", a.Owner.CallID),
			attribute.String("tool.name", s.State.Tool), attribute.String("tool.version", s.State.Version),
			attribute.String("tool.fn", s.Request.Fn),
			attribute.Int("call.attempt", s.Attempt), attribute.String("call.ref", s.State.Ref()),
		), trace.WithAttributes(asked(s)...), trace.WithAttributes(nature(s)...))
	return ctx, parent(ctx), func(last call.TraceEvent) {
		status := envelope.Success
		if last.Error != nil {
			status = last.Error.Code.Status()
			span.SetAttributes(attribute.String("error.type", string(last.Error.Code)))
			span.SetStatus(codes.Error, envelope.Lookup(last.Error.Code).Message) // the tool's own message may quote its input
		}
		span.SetAttributes(
			attribute.String("call.status", string(status)), attribute.Int64("duration_ms", last.Metrics.DurationMS))
		span.End()
	}
}

// report adds what a tool reports to the span of its run. It replaces no attribute that Toolbus sets.
func report(span trace.Span, r *call.Report) {
	switch {
	case r.Kind == call.ReportEvent:
		span.AddEvent(r.Name)
	case r.Kind != call.ReportAttribute || own(r.Name):
	case r.Text != "":
		span.SetAttributes(attribute.String(r.Name, r.Text))
	default:
		span.SetAttributes(attribute.Float64(r.Name, r.Number))
	}
}

// own reports whether an attribute of the span of a run is one of Toolbus.
func own(name string) bool {
	space, _, _ := strings.Cut(name, ".")
	switch space {
	case "gen_ai", "tool", "call", "error", "effect",
		"determinism", "timeout_ms", "idempotency_key_prefix", "duration_ms":
		return true
	}
	return false
}

// requested returns ctx with the trace that a request names. A trace id of Toolbus is a UUID, which maps one to one to
// a W3C trace id. The parent is the caller's span, if the request names one.
func requested(ctx context.Context, req *envelope.Request) context.Context {
	id, err := uuid.Parse(req.Context.TraceID)
	if err != nil {
		return ctx
	}
	span := parentSpan(req.Context.ParentSpanID, id)
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(id), SpanID: span, TraceFlags: trace.FlagsSampled, Remote: true,
	}))
}

// parentSpan returns the id of the caller's span: 16 hex digits, or the first half of a UUID. If the request names
// none, it derives one from the trace id, because a remote parent must have a span id.
func parentSpan(s string, traceID uuid.UUID) (span trace.SpanID) {
	raw, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(raw) < len(span) {
		raw = traceID[8:]
	}
	copy(span[:], raw)
	return span
}
