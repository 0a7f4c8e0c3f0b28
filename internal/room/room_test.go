package room

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func mustTake(t *testing.T, r *Room, n int64) *Share {
	t.Helper()
	s, err := r.Take(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Whoever finds no room waits for it, and what never fits is said at once.
func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(100)
		if _, err := r.Take(t.Context(), 101); !errors.Is(err, ErrNever) {
			t.Errorf("more than all: %v", err)
		}
		first := mustTake(t, r, 80)
		second := make(chan *Share)
		go func() {
			s, _ := r.Take(t.Context(), 50)
			second <- s
		}()
		synctest.Wait()
		select {
		case <-second:
			t.Fatal("130 of 100 are taken")
		default:
		}
		impatient, end := context.WithCancel(t.Context())
		end()
		if _, err := r.Take(impatient, 50); !errors.Is(err, context.Canceled) {
			t.Errorf("waiting ended with %v", err)
		}
		first.Keep(50)
		s := <-second
		first.Free()
		first.Free() // gives nothing back twice
		s.Free()
		if mustTake(t, r, 100).Bytes() != 100 {
			t.Error("not all is there again")
		}
	})
}

// What is garbage is collected before others fill its room.
func TestGarbageIsCollected(t *testing.T) {
	r := New(0)
	s := mustTake(t, r, r.Total())
	s.Spent(worthCollecting - 1)
	if r.garbage == 0 {
		t.Error("little garbage was collected")
	}
	s.Spent(1)
	if r.garbage != 0 {
		t.Error("much garbage lies about")
	}
	if s.Free(); r.used != 0 || r.held != 0 {
		t.Errorf("%d bytes are kept from the system, %d held", r.used, r.held)
	}
}
