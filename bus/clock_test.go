package bus

import (
	"context"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
)

// set returns t, a time of time.Now, as it would be had the wall clock been set by so many seconds. There
// is no other way to make one: the wall clock's seconds lie above 30 bits of nanoseconds in its first word.
func set(t time.Time, seconds int) time.Time {
	*(*int64)(unsafe.Pointer(&t)) += int64(seconds) << 30
	return t
}

// That the wall clock is set moves no deadline.
func TestWallClockIsSet(t *testing.T) {
	begun := time.Now()
	if got := set(begun, 30).Round(0).Sub(begun.Round(0)); got != 30*time.Second || set(begun, 30).Sub(begun) != 0 {
		t.Fatalf("times are made otherwise now: %s", got)
	}
	bus := begun.Add(time.Hour).Round(0)
	for _, by := range []int{-3600, -30, 0, 30, 3600} {
		r := Reading{begun, bus}
		later := set(begun.Add(time.Second), by)
		if got := r.At(later); !got.Equal(bus.Add(time.Second)) {
			t.Errorf("set by %d s: bus time is %s off", by, got.Sub(bus.Add(time.Second)))
		}
		if got, want := r.Stepped(later), time.Duration(by)*time.Second; got != want {
			t.Errorf("set by %d s: it seems set by %s", by, got)
		}
	}
}

// A clock that was set is measured again soon, since the machine may have slept as well.
func TestClockThatWasSetIsMeasured(t *testing.T) {
	js, err := jetstream.New(natstest.Start(t).Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := Ensure(t.Context(), js, TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	var by atomic.Int64
	local := func() time.Time { return set(time.Now(), int(by.Load())) }
	c, err := NewClock(t.Context(), js, local)
	if err != nil {
		t.Fatal(err)
	}
	before := c.last.Load()
	by.Store(30)
	exact := func() {
		t.Helper()
		const precision = 500 * time.Millisecond // within half of the quickest round trip, on a busy machine
		before, now, after := time.Now(), c.Now(), time.Now()
		if now.Before(before.Add(-precision)) || now.After(after.Add(precision)) {
			t.Errorf("bus time is %s off", now.Sub(before))
		}
	}
	exact()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx, time.Hour) }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for c.last.Load() == before {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it is not measured again")
		}
	}
	cancel()
	<-done
	if exact(); c.due(time.Hour) {
		t.Error("it is to be measured once more")
	}
}
