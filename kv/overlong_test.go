package kv_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
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

// A read of a log costs the same, however many attempts it has: a key that is asked for again and again stays usable.
func TestReadsOfManyAttempts(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	var s call.State
	var reads [2 * call.MaxAttempts]uint64
	for n := range reads {
		now := call.At(time.Now())
		v := call.Admit(s, call.AdmitRequest{
			Owner: call.Owner{CallID: fmt.Sprint(n), Actor: "a"}, Fingerprint: "fp", Priority: envelope.PriorityNormal,
			Pinned: call.Pinned{Tenant: "t", Tool: "web.fetch", ID: "asked", Version: "1.0.0", Class: call.SideEffectful,
				Pool: "default", Fingerprint: "fp", Lookup: call.LookupNo},
			Deadline: now + 60_000, Now: now, Nonce: fmt.Sprintf("q-%d", n),
		})
		if v.Do != call.Write {
			t.Fatalf("attempt %d: %v", n+1, v.Do)
		}
		var err error
		if s, err = f.log.Write(t.Context(), v.Event, body); err != nil {
			t.Fatal(err)
		}
		end := call.Decide(s, n+1, s.Last().Admitted, call.Completion{
			Cause: call.TimedOut, NotTaken: true, By: call.ByDeadline, Nonce: fmt.Sprintf("d-%d", n), Now: now,
		})
		if s, err = f.log.Write(t.Context(), end.Event, body); err != nil {
			t.Fatal(err)
		}
		nc := f.js.Conn()
		sent := nc.Stats().OutMsgs
		last, err := f.log.Read(t.Context(), s.Tool, s.ID)
		reads[n] = nc.Stats().OutMsgs - sent
		if err != nil || last.State.Seq != s.Seq || len(last.State.Attempts) != len(s.Attempts) {
			t.Fatalf("attempt %d read as %+v, %v", n+1, last.State, err)
		}
	}
	if reads[0] > 3 || reads[len(reads)-1] > reads[0] {
		t.Errorf("messages by attempts: %d", reads)
	}
}
