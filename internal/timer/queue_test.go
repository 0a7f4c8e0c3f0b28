package timer_test

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Each value is returned once, in the order of due times, and Wake receives a value when an earlier one is added.
func TestQueue(t *testing.T) {
	q, start := timer.NewQueue[string](), time.Unix(1_000, 0)
	woken := func() bool { return len(q.Wake) > 0 && <-q.Wake == struct{}{} }
	for _, c := range []struct {
		after time.Duration
		name  string
		wakes bool
	}{{3, "c", true}, {5, "e", false}, {1, "a", true}, {2, "b", false}, {4, "d", false}} {
		if q.Add(start.Add(c.after*time.Second), c.name); woken() != c.wakes {
			t.Errorf("%s wakes: %t", c.name, !c.wakes)
		}
	}
	for _, c := range []struct {
		after time.Duration
		over  []string
		pause time.Duration
	}{{0, nil, time.Second}, {3, []string{"a", "b", "c"}, time.Second}, {3, nil, time.Second},
		{9, []string{"d", "e"}, time.Hour}} {
		over, pause := q.Next(start.Add(c.after * time.Second))
		if !slices.Equal(over, c.over) || pause != c.pause {
			t.Errorf("after %d: %v, %s", c.after, over, pause)
		}
	}
}
