package writer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// How many refusals a dispatcher records one by one, a second and at once. What is over that is counted.
const (
	maxDenied       = 20 // of one tenant, actor and code
	maxDeniedAtOnce = 100
	maxDeniedOfAll  = 500
	maxAllAtOnce    = 1000
)

// When a count ends: its flood is over, or it has lasted so long that the next refusal opens another one.
const (
	countQuiet = time.Second
	countTime  = 10 * time.Second
)

// kind is whose refusals are counted together.
type kind struct {
	from call.Sender
	code envelope.Code
}

// aggregates decides which refusals are recorded one by one, and counts the others: those over the limit of their kind
// each by itself, and what is over that of the dispatcher together. It is safe for concurrent use.
type aggregates struct {
	begun chan struct{} // there is something that will be over

	mu    sync.Mutex
	all   *allowance
	kinds map[kind]*allowance // that are not as large as they can be; of no more than all has let through meanwhile
	ended []*count            // that lasted too long
}

func newFloods() aggregates {
	return aggregates{
		begun: make(chan struct{}, 1), kinds: map[kind]*allowance{},
		all: &allowance{over: audit.OverDispatcher, rate: maxDeniedOfAll, most: maxAllAtOnce, left: maxAllAtOnce},
	}
}

// allowance is how many refusals may be recorded one by one, and the count of what is over it.
type allowance struct {
	over       string
	rate, most float64
	left       float64   // at the time
	at         time.Time // last looked at
	count      *count
}

// fill adds what has come up to now.
func (a *allowance) fill(now time.Time) {
	if !a.at.IsZero() {
		a.left = min(a.most, a.left+a.rate*now.Sub(a.at).Seconds())
	}
	a.at = now
}

// count is of refusals that are on record by their number only.
type count struct {
	*allowance
	n uint64 // with the first one; final once the allowance has another count, or none

	ready   chan struct{} // closed once the opening record is stored, or is known not to be
	opening audit.Record
	since   time.Time // of when it is stored; zero before
	last    time.Time
	err     error // with which it was not
}

// take is asked about every refusal. It returns nil for one that is to be recorded by itself. The others are the n-th
// of a count; for the first one the opening record is to be stored, and [floods.opened] be called.
func (f *aggregates) take(k kind, now time.Time) (c *count, n uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.kinds[k]
	if a == nil {
		a = &allowance{over: audit.OverActor, rate: maxDenied, most: maxDeniedAtOnce, left: maxDeniedAtOnce}
	}
	a.fill(now)
	f.all.fill(now)
	switch {
	case a.left < 1:
		return f.add(a, now)
	case f.all.left < 1:
		return f.add(f.all, now)
	}
	a.left--
	f.all.left--
	f.kinds[k] = a
	timer.Notify(f.begun)
	return nil, 0
}

// add counts a refusal. Callers hold f.mu.
func (f *aggregates) add(a *allowance, now time.Time) (*count, uint64) {
	if c := a.count; c != nil && c.lasted(now) {
		f.ended, a.count = append(f.ended, c), nil
	}
	if a.count == nil {
		a.count = &count{allowance: a, ready: make(chan struct{})}
		timer.Notify(f.begun)
	}
	a.count.n++
	a.count.last = now
	return a.count, a.count.n
}

func (c *count) lasted(now time.Time) bool { return !c.since.IsZero() && now.Sub(c.since) >= countTime }

// opened tells all that are counted that their opening record is stored, or why not: then the next refusal opens
// another count.
func (f *aggregates) opened(c *count, opening audit.Record, err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.opening, c.err, c.since = opening, err, now
	if err != nil {
		c.allowance.count = nil
	}
	close(c.ready)
}

// wait returns the id of the opening record once that is stored.
func (c *count) wait(ctx context.Context) (id string, err error) {
	select {
	case <-c.ready:
		return c.opening.EventID, c.err
	case <-ctx.Done():
		return "", fmt.Errorf("audit record: %w", context.Cause(ctx))
	}
}

// over returns the counts that are over, and whether there is more to come.
func (f *aggregates) over(now time.Time) (over []*count, busy bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	over = f.endAll(func(c *count) bool { return c.lasted(now) || now.Sub(c.last) >= countQuiet })
	for k, a := range f.kinds {
		if a.fill(now); a.left == a.most && a.count == nil {
			delete(f.kinds, k)
		}
	}
	return over, len(f.kinds) > 0 || f.all.count != nil
}

// end returns all counts.
func (f *aggregates) end() []*count {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.endAll(func(*count) bool { return true })
}

// endAll ends the counts that are on record and for which done holds. Callers hold f.mu.
func (f *aggregates) endAll(done func(*count) bool) (over []*count) {
	over, f.ended = f.ended, nil
	end := func(a *allowance) {
		if c := a.count; c != nil && !c.since.IsZero() && done(c) {
			over, a.count = append(over, c), nil
		}
	}
	end(f.all)
	for _, a := range f.kinds {
		end(a)
	}
	return over
}
