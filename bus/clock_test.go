package bus

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/internal/timer/timertest"
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
		r := Reading{Local: begun, Bus: bus}
		later := set(begun.Add(time.Second), by)
		if got := r.At(later); !got.Equal(bus.Add(time.Second)) {
			t.Errorf("set by %d s: bus time is %s off", by, got.Sub(bus.Add(time.Second)))
		}
		if got, want := r.Stepped(later), time.Duration(by)*time.Second; got != want {
			t.Errorf("set by %d s: it seems set by %s", by, got)
		}
	}
}

// A step of the server's clock is noticed within a second, and bus time follows it, both ways. Steady time does not.
func TestStepOfTheServersClock(t *testing.T) {
	js, err := jetstream.New(natstest.Start(t).Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := Ensure(t.Context(), js, TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	own, err := NewClock(t.Context(), js, nil)
	if err != nil {
		t.Fatal(err)
	}
	var by atomic.Int64
	c, err := NewClockOf(t.Context(), func(ctx context.Context) (time.Time, error) {
		now, err := own.Server(ctx)
		return now.Add(time.Duration(by.Load())), err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx, time.Hour) })
	running.Go(func() { c.Watch(ctx) })
	defer running.Wait()
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	watch := timertest.StartStallMeter()
	defer watch.End()
	for _, step := range []time.Duration{15 * time.Second, -15 * time.Minute, time.Hour, 0} {
		by.Store(int64(step))
		set := time.Now()
		off := func() time.Duration { return c.Now().Sub(time.Now().Add(step)).Abs() }
		for off() > 500*time.Millisecond && time.Since(set) < 10*time.Second {
			<-tick.C
		}
		if took := time.Since(set); took > time.Second+watch.Late() {
			t.Errorf("set by %s: bus time is %s off after %s", step, off(), took)
		}
		now, steady := c.Times()
		if off := time.Until(steady).Abs(); off > time.Second || now.Sub(steady.Add(step)).Abs() > time.Second {
			t.Errorf("set by %s: steady time is %s off", step, off)
		}
	}
}

// A time that another process tells, and the network delays, contradicts the clock only when one of them was set.
func TestHear(t *testing.T) {
	now := time.Now()
	c := &Clock{local: time.Now, moved: make(chan struct{}, 1)}
	c.last.Store(&measurement{Reading: Reading{now, now.Add(time.Hour), 20 * time.Millisecond}})
	for _, told := range []struct {
		off, trip time.Duration
		wrong     bool
	}{
		{0, 0, false}, {119 * time.Millisecond, 0, false}, {-121 * time.Millisecond, 0, true},
		{250 * time.Millisecond, 270 * time.Millisecond, false}, {15 * time.Second, 250 * time.Millisecond, true},
	} {
		c.Hear(now.Add(time.Hour+told.trip/2+told.off), now, now.Add(told.trip))
		if wrong := len(c.moved) > 0; wrong != told.wrong {
			t.Errorf("%+v: %t", told, wrong)
		}
		c.moved = make(chan struct{}, 1)
	}
}
