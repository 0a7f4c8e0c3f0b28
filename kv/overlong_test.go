package kv_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/kv"
)

// A read of a log with 1,000 events costs one message more than it has events. The memory, which is that of the server,
// too, is bounded.
func TestReadsOfForgedEventsAreBounded(t *testing.T) {
	// With the request and the claim as many events as a log may have. They are read one after another.
	const forged, most, patience = 998, 32 << 20, 30 * time.Second
	f := setup(t, kv.LogOptions{Answer: patience}, bus.TopologyOptions{})
	s := f.claimed(t, "forged", call.LookupNo)
	lie := success(s, "other.9", nil)
	text := kv.EncodeEvent(lie)
	for i := range forged {
		lie.Attempt = 1 + i/32 // a subject keeps 32 events
		f.put(t, lie, text)
	}
	nc := f.js.Conn()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	sent := nc.Stats().OutMsgs
	last, err := f.log.Read(t.Context(), s.Tool, s.ID)
	sent = nc.Stats().OutMsgs - sent
	runtime.ReadMemStats(&after)
	if err != nil || !last.State.Last().Open() {
		t.Fatalf("read as %+v, %v", last.State, err)
	}
	allocated := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d messages, %d KB in %d allocations", sent, allocated>>10, after.Mallocs-before.Mallocs)
	if want := uint64(forged + 2 + 1); sent > want {
		t.Errorf("%d messages, want at most %d", sent, want)
	}
	if allocated > most {
		t.Errorf("%d bytes allocated, want at most %d", allocated, most)
	}
}
