package telemetry

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// Tracer makes the spans of one process.
type Tracer struct {
	tracer   trace.Tracer
	shutdown func(context.Context) error
}

// Open exports spans over OTLP/HTTP to endpoint, a URL such as http://collector:4318, in
// batches and off the path of calls. failed, of which a process has one, is told of those that could not be
// sent. Close it to send what is left.
func Open(ctx context.Context, service, endpoint string, failed func(error)) (*Tracer, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(failed))
	return New(service, sdktrace.WithBatcher(exporter)), nil
}

// New returns a Tracer of a service; the options say where its spans go.
func New(service string, opts ...sdktrace.TracerProviderOption) *Tracer {
	opts = append(opts, sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service))))
	provider := sdktrace.NewTracerProvider(opts...)
	return &Tracer{tracer: provider.Tracer("github.com/seed-018f16cc/toolbus"), shutdown: provider.Shutdown}
}

// Close sends the spans that are left, for at most five seconds.
func (t *Tracer) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return t.shutdown(ctx)
}

// Admit is told of an attempt about to be written and returns the traceparent that travels with
// it, and what to call when that is over. Its span continues the trace that the request names, and there is none where
// nothing was admitted: most often because the request repeats another.
func (t *Tracer) Admit(ctx context.Context, ask *call.Ask, req *envelope.Request) (traceparent string, done func(admitted bool)) {
	ctx, span := t.tracer.Start(requested(ctx, req), "admit "+req.ToolID, trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(
			attribute.String("tool.name", req.ToolID), attribute.String("tool.version", ask.Facts.Version),
			attribute.String("tool.fn", req.Fn), attribute.String("effect.level", string(ask.Facts.Class)),
			attribute.String("call.id", req.CallID), attribute.String("call.ref", call.State{Facts: ask.Facts}.Ref()),
			attribute.String("messaging.system", "nats"), attribute.String("messaging.operation.type", "send"),
		))
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier["traceparent"], func(admitted bool) {
		if admitted {
			span.End()
		}
	}
}

// Refuse is told of a request for tool that was refused with e. Its span, which has no length, lies in the trace that
// the request names; req is nil where it could not be read.
func (t *Tracer) Refuse(ctx context.Context, tool string, req *envelope.Request, e *envelope.Error) {
	if req == nil {
		req = new(envelope.Request)
	}
	_, span := t.tracer.Start(requested(ctx, req), "refuse "+tool, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("tool.name", tool), attribute.String("tool.fn", req.Fn), attribute.String("call.id", req.CallID),
			attribute.String("call.status", string(e.Code.Status())), attribute.String("error.type", string(e.Code)),
		))
	span.SetStatus(codes.Error, envelope.Lookup(e.Code).Message)
	span.End()
}

// keyPrefix is how much of an idempotency key a span shows.
const keyPrefix = 8

// Run is told when a run starts, and returns what to call with its end, which may be that it could not start.
func (t *Tracer) Run(ctx context.Context, s call.State, attempt int, req *envelope.Request) (context.Context, func(*envelope.Response)) {
	a, _ := s.Attempt(attempt)
	parent := propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": a.Owner.Parent})
	if !trace.SpanContextFromContext(parent).IsValid() {
		parent = requested(ctx, req)
	}
	key := req.Constraints.IdempotencyKey
	ctx, span := t.tracer.Start(parent, "execute_tool "+s.Tool, trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("gen_ai.operation.name", "execute_tool"), attribute.String("gen_ai.tool.name", s.Tool),
			attribute.String("gen_ai.tool.call.id", a.Owner.CallID),
			attribute.String("tool.name", s.Tool), attribute.String("tool.version", s.Version),
			attribute.String("tool.origin", "local"), attribute.String("tool.fn", req.Fn),
			attribute.String("effect.level", string(s.Class)), attribute.String("determinism", string(s.Class)),
			attribute.Int64("timeout_ms", req.Constraints.TimeoutMS),
			attribute.String("idempotency_key_prefix", strings.ToValidUTF8(key[:min(len(key), keyPrefix)], "")), // it may cut a letter
			attribute.Int("call.attempt", attempt), attribute.String("call.ref", s.Ref()),
		))
	return ctx, func(r *envelope.Response) {
		span.SetAttributes(attribute.String("call.status", string(r.Status)), attribute.Int64("duration_ms", r.Metrics.DurationMS))
		if r.Error != nil {
			span.SetAttributes(attribute.String("error.type", string(r.Error.Code)))
			span.SetStatus(codes.Error, envelope.Lookup(r.Error.Code).Message) // a tool's own may quote its input
		}
		span.End()
	}
}

// requested continues the trace that a request names: its trace id is a UUID, which maps one to
// one onto a W3C trace id. Its parent span, if it names one, is the caller's.
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

// parentSpan is the caller's span: 16 hex digits, or the first half of a UUID. A request without
// one gets a span id derived from its trace, since a remote parent must have one.
func parentSpan(s string, traceID uuid.UUID) (span trace.SpanID) {
	raw, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	if err != nil || len(raw) < len(span) {
		raw = traceID[8:]
	}
	copy(span[:], raw)
	return span
}
