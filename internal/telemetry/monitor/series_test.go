package monitor

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/telemetry"
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

// Bounds of what 5,000 tools that were called once take in a process, 29 MB, and of a scrape of them, 130,000 lines and
// 1 s: half as much again. A dispatcher with as many tools takes 111 MB without them (test/memory), of 160.
const (
	calledTools = 5000
	seriesHeap  = 43_000_000
	scrapeLines = 200_000
)

// A process that has called 5,000 tools has room for their series, and shows them soon. Only CPU time counts: a scrape
// that a busy machine delays beyond its time is repeated.
func TestManySeries(t *testing.T) {
	s := open(t, Options{})
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.Reader()), sdkmetric.WithCardinalityLimit(0),
		otlp.Histograms())
	m, err := telemetry.NewMeter(provider, nil)
	if err != nil {
		t.Fatal(err)
	}
	hooks, before := m.Trace(call.Trace{}), heap()
	for i := range calledTools {
		state := call.State{
			Pinned:   call.Pinned{Tool: fmt.Sprint("files.tool_", i), Version: "1.0.0", Fn: "find", Pool: "default"},
			Attempts: []call.Attempt{{N: 1, Decision: &call.Decision{By: call.ByExecutor}}},
		}
		_, _, end := hooks.Begin(t.Context(), call.TraceEvent{At: call.TraceRun, State: state, Attempt: 1})
		end(call.TraceEvent{})
		hooks.Event(t.Context(), call.TraceEvent{At: call.TraceAfterDecide, State: state, Attempt: 1, Won: true})
	}
	takes := heap() - before
	began, status, text := cpuTime(t), 0, ""
	for range 10 {
		began = cpuTime(t)
		if status, text = get(t, s.URL()+PathMetrics); status == http.StatusOK {
			break
		}
		t.Logf("%d %.200s", status, text)
	}
	scrape, lines := cpuTime(t)-began, strings.Count(text, "\n")
	t.Logf("%.1f MB; a scrape takes %s of CPU, and has %d lines, %.1f MB", float64(takes)/1e6, scrape, lines,
		float64(len(text))/1e6)
	if takes > seriesHeap || lines > scrapeLines || lines < calledTools || scrape > 2*time.Second {
		t.Errorf("%d bytes, %d lines, %s", takes, lines, scrape)
	}
	runtime.KeepAlive(provider)
}

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// cpuTime returns the time that the process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
