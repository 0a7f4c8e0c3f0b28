//go:build !race

package monitor

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/telemetry"
	"github.com/seed-018f16cc/toolbus/internal/telemetry/otlp"
)

// Bounds of what 5,000 tools that were called once take in a process, 29 MB, and of a scrape of them, 130,000 lines and
// 1 s: half as much again. A dispatcher with as many tools takes 111 MB without them (test/memory), of 160.
const (
	calledTools = 5000
	seriesHeap  = 43_000_000
	scrapeLines = 200_000
)

// A process that has called 5,000 tools has room for their series, and shows them soon. The race detector takes eight
// times the CPU: .ci/cover runs the test without it. Only CPU time counts: a scrape
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
