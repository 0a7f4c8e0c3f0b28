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

// Exporter makes and sends the spans of one process. Close it to send what is left.
type Exporter struct{ *sdktrace.TracerProvider }

// Open sends the spans of a service to endpoint, a URL such as http://collector:4318/v1/traces, in batches and off the
// path of calls. It calls failed, of which a process has one, with the error of each batch that could not be sent.
func Open(ctx context.Context, service, endpoint string, failed func(error)) (Exporter, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint))
	if err != nil {
		return Exporter{}, fmt.Errorf("telemetry: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(failed))
	return Exporter{sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(
		resource.NewSchemaless(attribute.String("service.name", service))))}, nil
}

// Close sends the spans that are left, for at most five seconds.
func (e Exporter) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return e.Shutdown(ctx)
}
