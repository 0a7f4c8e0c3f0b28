package flow

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func mustTake(t *testing.T, r *MemoryBudget, n int64) *Reservation {
	t.Helper()
	s, err := r.Acquire(t.Context(), Sender{}, n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Whoever finds no room waits for it, and what never fits is said at once.
func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewMemoryBudget(100, 0, 0)
		if _, err := r.Acquire(t.Context(), Sender{}, 101); !errors.Is(err, ErrTooLarge) {
			t.Errorf("more than all: %v", err)
		}
		first := mustTake(t, r, 80)
		second := make(chan *Reservation)
		go func() {
			s, _ := r.Acquire(t.Context(), Sender{}, 50)
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
		if _, err := r.Acquire(impatient, Sender{}, 50); !errors.Is(err, context.Canceled) {
			t.Errorf("waiting ended with %v", err)
		}
		first.Keep(50)
		s := <-second
		first.Release()
		first.Release() // gives nothing back twice
		s.Release()
		if mustTake(t, r, 100).Bytes() != 100 {
			t.Error("not all is there again")
		}
	})
}

// What is garbage is collected before others fill its room.
func TestGarbageIsCollected(t *testing.T) {
	r := NewMemoryBudget(0, 0, 0)
	s := mustTake(t, r, r.Total())
	s.Spent(worthCollecting - 1)
	if r.garbage == 0 {
		t.Error("little garbage was collected")
	}
	s.Spent(1)
	if r.garbage != 0 {
		t.Error("much garbage lies about")
	}
	if s.Release(); r.used != 0 || r.held != 0 {
		t.Errorf("%d bytes are kept from the system, %d held", r.used, r.held)
	}
}

// An actor that holds its share, and has more waiting, keeps nobody else waiting; and senders take turns.
func TestSharesOfMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewMemoryBudget(100, 3, 5)
		greedy, other := Sender{Tenant: "t", Actor: "greedy"}, Sender{Tenant: "t", Actor: "other"}
		first, err := r.Acquire(t.Context(), greedy, 80)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, name := range []string{"second", "third"} {
			go func() {
				s, err := r.Acquire(t.Context(), greedy, 80)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, name)
				s.Release()
			}()
			synctest.Wait()
		}
		if _, err := r.Acquire(t.Context(), greedy, 1); !errors.Is(err, ErrTooManyWaiters) {
			t.Errorf("a fourth: %v", err)
		}
		s, err := r.Acquire(t.Context(), other, 20)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			s, err := r.Acquire(t.Context(), other, 90)
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, "other")
			s.Release()
		}()
		synctest.Wait()
		s.Release()
		first.Release()
		synctest.Wait()
		if len(order) != 3 || order[2] == "other" {
			t.Errorf("they had room in the order %v", order)
		}
	})
}
