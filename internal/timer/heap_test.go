package timer_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Entries are removed in the order of their due times, including moved ones, and without those that Remove removed.
func TestHeap(t *testing.T) {
	const most = 200
	start, random := time.Unix(1_000, 0), rand.New(rand.NewPCG(1, 2))
	var h timer.Heap[int]
	all, want := make([]timer.Entry[int], most), map[int]time.Time{}
	for range 10 * most {
		n := random.IntN(most)
		if random.IntN(4) == 0 {
			h.Remove(&all[n])
			delete(want, n)
		} else {
			all[n].Of, want[n] = n, start.Add(time.Duration(random.IntN(1_000))*time.Second)
			h.Put(&all[n], want[n])
		}
		if _, in := want[n]; all[n].Queued() != in || h.Len() != len(want) {
			t.Fatalf("%d is queued: %t, of %d; want %t, of %d", n, all[n].Queued(), h.Len(), in, len(want))
		}
	}
	if got := slices.Collect(h.All()); len(got) != len(want) {
		t.Errorf("%d of %d entries", len(got), len(want))
	}
	last := start
	for range len(want) {
		next := h.Next(start.Add(time.Hour))
		if _, early := h.Due(next.Add(-1)); early {
			t.Fatal("an entry came out before it was due")
		}
		n, ok := h.Due(next)
		if !ok || !want[n].Equal(next) || next.Before(last) || all[n].Queued() || !all[n].At().Equal(next) {
			t.Fatalf("%d at %s after %s, %t", n, want[n], last, ok)
		}
		last = next
	}
	if _, ok := h.Pop(); ok || !h.Next(last).Equal(last) {
		t.Error("there is something in an empty heap")
	}
}
