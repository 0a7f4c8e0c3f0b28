// Package otlp exports traces over OTLP/HTTP. It is separate from package telemetry because programs that import
// Toolbus bring their own exporter.
package otlp

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Exporter creates and sends the spans of one process. Close sends the remaining spans.
type Exporter struct{ *sdktrace.TracerProvider }

// Open returns an Exporter that sends the spans of a service to endpoint, a URL such as
// http://collector:4318/v1/traces. It sends them in batches, in the background. It makes failed the error handler of
// OpenTelemetry for the whole process: failed gets the error of each batch that could not be sent.
func Open(ctx context.Context, service, endpoint string, failed func(error)) (Exporter, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint))
	if err != nil {
		return Exporter{}, fmt.Errorf("telemetry: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(failed))
	return Exporter{sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(
		resource.NewSchemaless(attribute.String("service.name", service))))}, nil
}

// Close sends the remaining spans, and waits at most 5 s for that.
func (e Exporter) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return e.Shutdown(ctx)
}
