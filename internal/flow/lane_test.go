package flow

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var one = QueueLimits{
	Actor: Load{Items: 2, Slots: 1}, Tenant: Load{Items: 3, Slots: 1}, All: Load{Items: 4, Slots: 1},
	Quantum: 1,
}

// Senders take turns, one that is over its bound is refused, and Stop drops what nobody has begun to handle.
func TestLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, handled := make(chan struct{}), make(chan string, 10)
		l := NewLane(one, func(m string, _ func()) {
			<-release
			handled <- m
		})
		a, b := Sender{Tenant: "t", Actor: "a"}, Sender{Tenant: "u", Actor: "b"}
		for _, m := range []string{"a1", "a2"} {
			if err := l.Put(a, m, 1); err != nil {
				t.Fatal(err)
			}
		}
		if _, full := errors.AsType[*QueueFullError](l.Put(a, "a3", 1)); !full || l.Fits(a, 1) {
			t.Error("a sender over its bound is let in")
		}
		if err := l.Put(b, "b1", 1); err != nil || !l.Fits(b, 1) {
			t.Errorf("another sender is kept out: %v", err)
		}
		release <- struct{}{}
		release <- struct{}{}
		if first, second := <-handled, <-handled; first != "a1" || second != "b1" {
			t.Errorf("handled %s and %s first", first, second)
		}
		go close(release)
		l.Stop(time.Minute)
		if last := <-handled; last != "a2" {
			t.Errorf("handled %s last", last)
		}
		if err := l.Put(a, "late", 1); !errors.Is(err, ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// Stop gives what waits so long, and no longer.
func TestStopDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var handled atomic.Int64
		l := NewLane(one, func(string, func()) {
			<-time.After(time.Minute)
			handled.Add(1)
		})
		for range 2 {
			if err := l.Put(Sender{Tenant: "t", Actor: "a"}, "m", 1); err != nil {
				t.Fatal(err)
			}
		}
		l.Stop(time.Second)
		if n := handled.Load(); n != 1 {
			t.Errorf("%d handled, want the one that had begun", n)
		}
	})
}
