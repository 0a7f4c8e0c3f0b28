package monitor

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed-018f16cc/toolbus/internal/telemetry/otlp"
)

// A histogram is exported twice: with the bounds that rules use, and as an exponential one, which is a native histogram
// in Prometheus.
func TestExponentialHistograms(t *testing.T) {
	s, reader, registry := open(t, Options{}), sdkmetric.NewManualReader(), prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.Reader()), sdkmetric.WithReader(reader),
		sdkmetric.WithReader(exporter), otlp.Histograms()).Meter("test")
	took, err := meter.Float64Histogram("took", metric.WithUnit("s"), metric.WithExplicitBucketBoundaries(0.001, 900))
	if err != nil {
		t.Fatal(err)
	}
	for _, seconds := range []float64{0.001, 0.25, 900} {
		took.Record(t.Context(), seconds, metric.WithAttributes(attribute.String("tool", "one")))
	}
	var found metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &found); err != nil {
		t.Fatal(err)
	}
	all := found.ScopeMetrics[0].Metrics
	if len(all) != 2 || all[0].Name != "took" || all[1].Name != "took.exp" {
		t.Fatalf("%+v", all)
	}
	if h, ok := all[0].Data.(metricdata.Histogram[float64]); !ok || len(h.DataPoints[0].Bounds) != 2 {
		t.Errorf("%+v", all[0].Data)
	}
	if h, ok := all[1].Data.(metricdata.ExponentialHistogram[float64]); !ok || h.DataPoints[0].Count != 3 ||
		h.DataPoints[0].Scale < 2 {
		t.Errorf("%+v", all[1].Data)
	}
	if _, text := get(t, s.URL()+PathMetrics); !strings.Contains(text, "\ntook_exp_seconds_count{") ||
		!strings.Contains(text, "\ntook_seconds_bucket{") {
		t.Error(text)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "took_exp_seconds" && len(f.GetMetric()[0].GetHistogram().GetPositiveSpan()) > 0 {
			return
		}
	}
	t.Errorf("no native histogram in %v", families)
}
