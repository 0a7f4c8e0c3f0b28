package heartbeat_test

import (
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// A beat that the server keeps although it should have expired, as one that crashed does with some, counts nobody
// alive, and its claims are not waited for.
func TestForgottenBeat(t *testing.T) {
	const lease = 3 * time.Second // longer than a busy machine keeps anybody from looking
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	pools := open(t, js, lease)
	alive := func(pool string, here, all int, lives bool) (last time.Time) {
		t.Helper()
		n, err := pools.Alive(t.Context(), pool)
		if err != nil || n != here {
			t.Errorf("%d executors of pool %s, want %d, %v", n, pool, here, err)
		}
		if beats, err := pools.AllAlive(t.Context()); err != nil || len(beats) != all {
			t.Errorf("%d executors, want %d, %v", len(beats), all, err)
		}
		last, _, err = pools.LastAlive(t.Context(), pool)
		if is := n > 0; err != nil || is != lives {
			t.Errorf("pool %s lives: %t, %v", pool, is, err)
		}
		return last
	}
	if last := alive("default", 0, 0, false); !last.IsZero() {
		t.Errorf("somebody beat at %s", last)
	}
	for _, name := range []string{"ghost", "old"} {
		// never expires
		if _, err := js.Publish(t.Context(), subjects.PoolSubject("default", name), []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	beaten := alive("default", 2, 2, true)
	if since := time.Since(beaten); since < 0 || since > lease {
		t.Errorf("the last beat was %s ago", since)
	}
	ghost := subjects.Instance("default", "ghost")
	if pools.Expired(t.Context(), ghost) {
		t.Error("gone while it has just beaten")
	}
	waitFor(t, "the ghost to be gone", func() bool { return pools.Expired(t.Context(), ghost) })
	if last := alive("default", 0, 0, false); !last.Equal(beaten) {
		t.Errorf("the last beat was at %s, not at %s", last, beaten)
	}
	for range 2 {
		if err := pools.Beat(t.Context(), "default", "ghost"); err != nil { // it lives after all
			t.Fatal(err)
		}
		waitFor(t, "it to live", func() bool { return !pools.Expired(t.Context(), ghost) })
	}
	alive("default", 1, 1, true)
	alive("gpu", 0, 1, false)
}

// A beat says itself for how long it counts: whoever asks may have another lease in mind.
func TestBeatOfAnotherLease(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := open(t, js, time.Hour).Beat(t.Context(), "default", "slow"); err != nil {
		t.Fatal(err)
	}
	<-time.After(1100 * time.Millisecond)
	if n, err := open(t, js, time.Second).Alive(t.Context(), "default"); err != nil || n != 1 {
		t.Errorf("%d alive, %v", n, err)
	}
}
