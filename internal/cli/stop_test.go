package cli

import (
	"context"
	"math"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A process that waits for running calls after a signal says so. A process that ends at once prints nothing.
func TestPatience(t *testing.T) {
	for took, want := range map[time.Duration]string{0: "", soon / 2: "", 2 * soon: "calls in hand"} {
		synctest.Test(t, func(t *testing.T) {
			var said strings.Builder
			ctx, stop := context.WithCancel(t.Context())
			ended := Patience(ctx, &said)
			<-time.After(time.Hour)
			stop()
			<-time.After(took)
			ended()
			if got := said.String(); !strings.Contains(got, want) || (got != "") != (want != "") {
				t.Errorf("after %s it says %q", took, got)
			}
		})
	}
	var said strings.Builder
	Patience(t.Context(), &said)() // the process failed before a signal
	if said.Len() > 0 {
		t.Errorf("it says %q", said.String())
	}
}

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
