package flow

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

const few, steps = 8, 4

// A family that has few is ahead of all that have many, whatever else there is, and no step is lower for more items.
func TestRank(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var o Counters
		for n := range 3000 {
			tenant, family := fmt.Sprint(rng.IntN(1+int(seed)%5)), fmt.Sprint(int(rng.ExpFloat64()*3))
			s, _ := o.Hold(Item{ID: fmt.Sprint(n)}, Sender{tenant, family}, family, 1e6, 1e6, time.Now())
			step, more := s.Rank(few), s
			if more.Family++; step < 0 || step >= steps || more.Rank(few) < step {
				t.Fatalf("seed %d, item %d: %+v is of step %d, with one more of %d", seed, n, s, step, more.Rank(few))
			}
			if light := s.Family <= few; light != (step < 2) || step == 0 && s.Tenant > tenantFew*few {
				t.Fatalf("seed %d, item %d: %+v is of step %d", seed, n, s, step)
			}
		}
	}
}

// line is a queue of items in the order of their steps, from which executors take by the weights of the steps.
type line struct {
	open    Counters
	steps   [steps][]queued
	turns   [steps]int
	running []queued
}

type queued struct {
	of      Sender
	counter *Counter
	asked   int // slots that had become free when it was put
}

// put adds an item of a sender. freed is how many slots have become free.
func (l *line) put(of Sender, freed int) {
	s, _ := l.open.Hold(Item{}, of, of.Actor, 1e6, 1e6, time.Now())
	step := s.Rank(few)
	l.steps[step] = append(l.steps[step], queued{of, l.open.Add(Item{}, of, of.Actor, time.Now()), freed})
}

// free ends an item that runs and begins the next.
func (l *line) free() (next queued) {
	best, total := -1, 0
	for step, weight := range [steps]int{8, 4, 4, 1} { // as package workqueue has them
		if len(l.steps[step]) > 0 {
			total += weight
			if l.turns[step] += weight; best < 0 || l.turns[step] > l.turns[best] {
				best = step
			}
		}
	}
	l.turns[best] -= total
	next, l.steps[best] = l.steps[best][0], l.steps[best][1:]
	if l.running = append(l.running, next); len(l.running) > 64 {
		l.open.Remove(l.running[0].counter, time.Now())
		l.running = l.running[1:]
	}
	return next
}

// After a burst of one family, what another tenant and another family of its tenant ask for, 24 at once, begins within
// a second where 30 slots a second become free. Where the burst is of many families, that holds for other tenants'.
func TestNewcomersAfterABurst(t *testing.T) {
	const perSecond, admitted, slots = 30, 2000, 64 // items a second
	for name, burst := range map[string]struct{ items, families int }{
		"40 narrowed actors": {320, 1}, "one actor": {6000, 1}, "many actors": {6000, 60},
	} {
		for who, newcomer := range map[string]Sender{"tenant": {"new", "x"}, "family": {"busy", "x"}} {
			for _, at := range []int{1, 24} {
				if who == "family" && burst.families > 1 {
					continue
				}
				var l line
				freed := 0
				for n := range burst.items {
					l.put(Sender{"busy", fmt.Sprint(n % burst.families)}, freed)
					if n < slots || n%(admitted/perSecond) == 0 {
						l.free()
						freed++
					}
				}
				for range at {
					l.put(newcomer, freed)
				}
				left, most := at, 0
				for begins := freed; left > 0; begins++ {
					if next := l.free(); next.of == newcomer {
						left, most = left-1, begins-next.asked
					}
				}
				limit := perSecond
				if burst.families > 1 {
					limit *= 2
				}
				if most > limit {
					t.Errorf("%s: %d of another %s begin after %d slots", name, at, who, most)
				}
			}
		}
	}
}

// Two tenants always have something to do, one of them with ten times the actors. It gets no more than half.
func TestTenTimesTheActors(t *testing.T) {
	var l line
	for n := range 24 * 100 {
		l.put(Sender{"many", fmt.Sprint(n % 100)}, 0)
	}
	for n := range 24 * 10 {
		l.put(Sender{"ten", fmt.Sprint(n % 10)}, 0)
	}
	began := map[string]int{}
	for range 5000 {
		next := l.free()
		began[next.of.Tenant]++
		l.put(next.of, 0)
	}
	if n := began["many"]; n > 5000/2 || n < 5000/8 {
		t.Errorf("the tenant with ten times the actors gets %d of 5000", n)
	}
}
