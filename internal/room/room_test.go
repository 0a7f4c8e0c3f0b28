package room

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/seed-018f16cc/toolbus/internal/fair"
)

func mustTake(t *testing.T, r *Room, n int64) *Share {
	t.Helper()
	s, err := r.Take(t.Context(), fair.Sender{}, n)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Whoever finds no room waits for it, and what never fits is said at once.
func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(100, 0, 0)
		if _, err := r.Take(t.Context(), fair.Sender{}, 101); !errors.Is(err, ErrNever) {
			t.Errorf("more than all: %v", err)
		}
		first := mustTake(t, r, 80)
		second := make(chan *Share)
		go func() {
			s, _ := r.Take(t.Context(), fair.Sender{}, 50)
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
		if _, err := r.Take(impatient, fair.Sender{}, 50); !errors.Is(err, context.Canceled) {
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
	r := New(0, 0, 0)
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

// An actor that holds its share, and has more waiting, keeps nobody else waiting; and senders take turns.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(100, 3, 5)
		greedy, other := fair.Sender{Tenant: "t", Actor: "greedy"}, fair.Sender{Tenant: "t", Actor: "other"}
		first, err := r.Take(t.Context(), greedy, 80)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		for _, name := range []string{"second", "third"} {
			go func() {
				s, err := r.Take(t.Context(), greedy, 80)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, name)
				s.Free()
			}()
			synctest.Wait()
		}
		if _, err := r.Take(t.Context(), greedy, 1); !errors.Is(err, ErrCrowded) {
			t.Errorf("a fourth: %v", err)
		}
		s, err := r.Take(t.Context(), other, 20)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			s, err := r.Take(t.Context(), other, 90)
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, "other")
			s.Free()
		}()
		synctest.Wait()
		s.Free()
		first.Free()
		synctest.Wait()
		if len(order) != 3 || order[2] == "other" {
			t.Errorf("they had room in the order %v", order)
		}
	})
}
