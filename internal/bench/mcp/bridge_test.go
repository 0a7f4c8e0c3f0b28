package mcp

import (
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// Each of the four ways of calling works.
func TestCompare(t *testing.T) {
	var r Report
	o := Options{URL: natstest.Start(t).URL, Dir: t.TempDir(), Rounds: 1, Duration: 20 * time.Millisecond}
	if err := o.compare(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Direct <= 0 || r.Proxy <= 0 || r.Bus <= 0 || r.Through <= 0 {
		t.Errorf("%+v", r)
	}
}

// The executor has enough slots for all calls of one actor, which gets at most seven eighths of them.
func TestSlots(t *testing.T) {
	for calls := 1; calls <= 2000; calls++ {
		if n := slots(calls); n-n/8 < calls || calls > 8 && n > calls*8/7+1 {
			t.Errorf("%d slots for %d calls", n, calls)
		}
	}
}
