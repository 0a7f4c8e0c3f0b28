// Package otlp exports traces and metrics over OTLP/HTTP. It is separate from package telemetry because programs that
// import Toolbus bring their own exporter.
//
// It sends in the background: a collector that refuses or never answers delays no call. The rest is lost, and the error
// handler of OpenTelemetry learns why.
package otlp

import (
	"context"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Traces returns a provider that sends the spans of a service to endpoint, a URL such as
// http://collector:4318/v1/traces. It sends them in batches. Its Shutdown sends the remaining ones.
func Traces(ctx context.Context, service, endpoint string) (*sdktrace.TracerProvider, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(Service(service))), nil
}

// Ends of the URLs of a collector, as the specification of OTLP/HTTP has them.
const (
	pathTraces  = "/v1/traces"
	pathMetrics = "/v1/metrics"
)

// Metrics returns a reader that sends metrics each minute, and at its Shutdown, to the collector whose endpoint for
// traces is given. If that URL does not end in /v1/traces, the one for metrics is unknown, and there is no reader.
func Metrics(ctx context.Context, endpoint string) (sdkmetric.Reader, error) {
	base, ok := strings.CutSuffix(endpoint, pathTraces)
	if !ok {
		return nil, nil
	}
	exporter, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(base+pathMetrics))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return sdkmetric.NewPeriodicReader(exporter), nil
}

// Service returns the attributes of all that a service sends.
func Service(name string) *resource.Resource {
	return resource.NewSchemaless(attribute.String("service.name", name))
}
