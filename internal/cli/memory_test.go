package cli

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"
)

// Collect does not override a setting that an environment variable has made, and sets the other one.
func TestCollect(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(math.MaxInt64)
	defer func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(limit)
	}()
	for _, c := range []struct {
		environ string
		percent int
		limit   int64
	}{
		{"MYGOGC=1 GOGCX=1", 400, 1 << 30}, {"GOGC=50", 100, 1 << 30}, {"GOMEMLIMIT=1GiB", 400, math.MaxInt64},
		{"GOMEMLIMIT=off GOGC=off", 100, math.MaxInt64},
	} {
		debug.SetGCPercent(100)
		debug.SetMemoryLimit(math.MaxInt64)
		Collect(strings.Fields(c.environ), 400, 1<<30)
		if p, l := debug.SetGCPercent(100), debug.SetMemoryLimit(-1); p != c.percent || l != c.limit {
			t.Errorf("%s: %d %% and %d bytes", c.environ, p, l)
		}
	}
}

// The more memory is live, the less garbage may be there in relation to it.
func TestGarbagePercent(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 400, 40 << 20: 400, 64 << 20: 250, 100 << 20: 160, 160 << 20: 100, 1 << 40: 100,
	} {
		if got := garbagePercent(live); got != want {
			t.Errorf("%d live bytes: GOGC %d, want %d", live, got, want)
		}
	}
}

// boundGarbage follows what is live, up and down.
func TestBoundGarbage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(servingPercent))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	boundGarbage(ctx, nil)
	held := make([]byte, 100<<20)
	awaitPercent(t, func(percent uint64) bool { return percent < 200 })
	runtime.KeepAlive(held)
	awaitPercent(t, func(percent uint64) bool { return percent == servingPercent })
}

// awaitPercent collects garbage until GOGC is as wanted.
func awaitPercent(t *testing.T, wanted func(uint64) bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for metrics.Read(now); !wanted(now[0].Value.Uint64()); metrics.Read(now) {
		if ctx.Err() != nil {
			t.Fatalf("GOGC is %d", now[0].Value.Uint64())
		}
		runtime.GC()
	}
}
