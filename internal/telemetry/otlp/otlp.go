package otlp

import (
	"context"
	"fmt"
	"hash/crc32"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/exemplar"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Traces returns a provider that sends the spans of a service to endpoint, a URL such as
// http://collector:4318/v1/traces. It sends the share ratio of the traces, from 0 to 1. All processes with the same
// ratio send the same traces. It sends them in batches. Its Shutdown sends the remaining ones. lost counts the spans
// that the collector did not take.
func Traces(
	ctx context.Context, service, endpoint string, ratio float64, lost *atomic.Int64,
) (*sdktrace.TracerProvider, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(newQueue(exporter, lost)),
		sdktrace.WithResource(Service(service)), sdktrace.WithSampler(sampler(ratio))), nil
}

// sampler samples a share of the traces by their ids. The sampler of OpenTelemetry compares the end of an id with the
// share, which takes it to be random: that of a UUID begins with the bits of its variant.
type sampler float64

// ShouldSample implements sdktrace.Sampler.
func (s sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	result := sdktrace.SamplingResult{Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if float64(crc32.ChecksumIEEE(p.TraceID[:])) < float64(s)*(1<<32) {
		result.Decision = sdktrace.RecordAndSample
	}
	return result
}

// Description implements sdktrace.Sampler.
func (s sampler) Description() string { return fmt.Sprintf("share of traces: %v", float64(s)) }

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

// exponential ends the names of the second streams of [Histograms].
const exponential = ".exp"

// Limits of an exponential histogram: from 1 ms to 15 min it has eight buckets for each power of two.
const (
	maxBuckets = 160
	maxScale   = 8 // Prometheus knows no finer one
)

// Histograms returns the option of a provider that keeps each histogram twice. It is there as it is, with the bounds
// that rules use. Under its name with ".exp" it is an exponential histogram, from which any quantile can be read.
func Histograms() sdkmetric.Option {
	every := sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram}
	twice := func(i sdkmetric.Instrument) (sdkmetric.Stream, bool) {
		return sdkmetric.Stream{
			Name: i.Name + exponential, Description: i.Description, Unit: i.Unit,
			Aggregation: sdkmetric.AggregationBase2ExponentialHistogram{MaxSize: maxBuckets, MaxScale: maxScale},

			ExemplarReservoirProviderSelector: noExemplars,
		}, i.Kind == every.Kind
	}
	return sdkmetric.WithView(sdkmetric.NewView(every, sdkmetric.Stream{}), twice)
}

// noExemplars saves memory: an exponential histogram would have room for 20, and the other stream has them already.
func noExemplars(sdkmetric.Aggregation) exemplar.ReservoirProvider {
	return exemplar.FixedSizeReservoirProvider(0)
}

// Service returns the attributes of all that a service sends.
func Service(name string) *resource.Resource {
	return resource.NewSchemaless(attribute.String("service.name", name))
}
