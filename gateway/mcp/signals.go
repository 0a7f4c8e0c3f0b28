package mcp

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Names that OpenTelemetry has for servers of MCP.
const (
	scopeName     = "github.com/seed-018f16cc/toolbus/gateway/mcp"
	durationName  = "mcp.server.operation.duration"
	methodKey     = attribute.Key("mcp.method.name")
	protocolKey   = attribute.Key("mcp.protocol.version")
	toolKey       = attribute.Key("gen_ai.tool.name")
	operationKey  = attribute.Key("gen_ai.operation.name")
	errorKey      = attribute.Key("error.type")
	errorOfTool   = "tool_error" // the result of a call says that it is an error
	otherError    = "_OTHER"
	executesTools = "execute_tool"
)

// durationBounds are the bounds of the histogram, in seconds: those of OpenTelemetry, and finer ones below 10 ms.
var durationBounds = []float64{
	0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300,
}

// signals measures the requests of clients, and traces their calls. A field that is nil does nothing.
type signals struct {
	took   metric.Float64Histogram
	tracer trace.Tracer
}

// Measure adds the duration of each request to the metrics of meter, as docs/metrics.md says. Each call gets a span of
// tracer, which is the parent of its spans on the bus. A nil provider gets nothing. Call Measure before the gateway
// serves.
func Measure(s *Server, meter metric.MeterProvider, tracer trace.TracerProvider) {
	if meter != nil || tracer != nil {
		s.server.AddReceivingMiddleware(newSignals(meter, tracer).receive) // before s.receive
	}
}

func newSignals(meter metric.MeterProvider, tracer trace.TracerProvider) (s signals) {
	if meter != nil {
		// It fails only for an invalid name, and returns an instrument all the same.
		s.took, _ = meter.Meter(scopeName).Float64Histogram(durationName, metric.WithUnit("s"),
			metric.WithDescription("time of a request of an MCP client"),
			metric.WithExplicitBucketBoundaries(durationBounds...))
	}
	if tracer != nil {
		s.tracer = tracer.Tracer(scopeName)
	}
	return s
}

// receive measures and traces the requests that next answers. It leaves out requests to listen, which last as long as
// their client.
func (s signals) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method == "subscriptions/listen" {
			return next(ctx, method, req)
		}
		began := time.Now()
		ctx, span := s.start(ctx, method, req)
		res, err := next(ctx, method, req)
		failed := errorType(res, err)
		if span != nil {
			if failed != "" {
				span.SetAttributes(errorKey.String(failed))
				span.SetStatus(codes.Error, failed)
			}
			span.End()
		}
		if s.took != nil {
			of := []attribute.KeyValue{methodKey.String(method)}
			if failed != "" {
				of = append(of, errorKey.String(failed))
			}
			s.took.Record(ctx, time.Since(began).Seconds(), metric.WithAttributes(of...))
		}
		return res, err
	}
}

// start begins the span of a call, and makes it the parent of what the call does on the bus. Other requests get no
// span.
func (s signals) start(ctx context.Context, method string, req sdk.Request) (context.Context, trace.Span) {
	call, ok := req.(*sdk.CallToolRequest)
	if !ok || s.tracer == nil {
		return ctx, nil
	}
	var w3c propagation.TraceContext
	given, _ := call.Params.GetMeta()[envelope.MetaTraceparent].(string)
	carrier := propagation.MapCarrier{envelope.MetaTraceparent: given}
	name := call.Params.Name
	if len(name) > maxSpanTool {
		name = ""
	}
	ctx, span := s.tracer.Start(w3c.Extract(ctx, carrier), method+" "+name, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(methodKey.String(method), operationKey.String(executesTools), toolKey.String(name),
			protocolKey.String(call.ProtocolVersion())))
	w3c.Inject(ctx, carrier)
	meta := maps.Clone(call.Params.GetMeta())
	if meta == nil {
		meta = map[string]any{}
	}
	meta[envelope.MetaTraceparent] = carrier[envelope.MetaTraceparent]
	call.Params.SetMeta(meta)
	return ctx, span
}

// maxSpanTool is the largest size of the name of a tool in a span, in bytes. Tools of the bus have shorter ones.
const maxSpanTool = 256

// errorType returns the type of the error that a client is answered with: the code of a JSON-RPC error, or
// [errorOfTool]. It returns "" if the request succeeded.
func errorType(res sdk.Result, err error) string {
	if wire, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return strconv.FormatInt(wire.Code, 10)
	}
	if err != nil {
		return otherError
	}
	if isFailed(res) {
		return errorOfTool
	}
	return ""
}

// isFailed reports whether a result says that a call failed.
func isFailed(res sdk.Result) bool {
	switch r := res.(type) {
	case *reply:
		return r.isError
	case *complete:
		return r.IsError
	case *sdk.CallToolResult:
		return r.IsError
	}
	return false
}
