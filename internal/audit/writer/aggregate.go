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

// Rates and bursts up to which a dispatcher records refusals one by one. Further refusals are only counted.
const (
	maxDenied       = 20 // per second, of one tenant, actor and code
	maxDeniedAtOnce = 100
	maxDeniedOfAll  = 500
	maxAllAtOnce    = 1000
)

// A count ends after countQuiet without refusals. It also ends after countTime; the next refusal then opens another
// one.
const (
	countQuiet = time.Second
	countTime  = 10 * time.Second
)

// kind identifies the refusals that are counted together.
type kind struct {
	from call.Sender
	code envelope.Code
}

// aggregates decides which refusals are recorded one by one, and counts the others. Refusals above the limit of their
// kind have a count per kind. Those above the limit of the dispatcher share one count. It is safe for concurrent use.
type aggregates struct {
	begun chan struct{} // receives a value when closeCounts has to start checking

	mu    sync.Mutex
	all   *allowance
	kinds map[kind]*allowance // without those that are full; only grows when a refusal is recorded one by one
	ended []*count            // counts that were replaced because they lasted countTime
}

func newFloods() aggregates {
	return aggregates{
		begun: make(chan struct{}, 1), kinds: map[kind]*allowance{},
		all: &allowance{over: audit.OverDispatcher, rate: maxDeniedOfAll, most: maxAllAtOnce, left: maxAllAtOnce},
	}
}

// allowance is a token bucket: the number of refusals that may be recorded one by one, with the count of the others.
type allowance struct {
	over       string
	rate, most float64
	left       float64   // tokens at the time at
	at         time.Time // time of the last fill
	count      *count
}

// fill adds the tokens for the time since the last fill.
func (a *allowance) fill(now time.Time) {
	if !a.at.IsZero() {
		a.left = min(a.most, a.left+a.rate*now.Sub(a.at).Seconds())
	}
	a.at = now
}

// count is a series of refusals that are counted instead of recorded one by one.
type count struct {
	*allowance
	n uint64 // including the first one; final when the count is no longer that of its allowance

	ready   chan struct{} // closed when the opening record is stored, or has failed
	opening audit.Record
	since   time.Time // time at which it was stored; zero before
	last    time.Time
	err     error // why it was not stored
}

// take decides about a refusal. It returns nil if the refusal must be recorded by itself. Otherwise the refusal is the
// n-th of c. If n is 1, the caller must store the opening record and call [aggregates.opened].
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

// add counts a refusal. The caller holds f.mu.
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

// opened ends the wait of all counted refusals: the opening record is stored, or err says why not. After an error, the
// next refusal opens another count.
func (f *aggregates) opened(c *count, opening audit.Record, err error, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.opening, c.err, c.since = opening, err, now
	if err != nil {
		c.allowance.count = nil
	}
	close(c.ready)
}

// wait waits until the opening record is stored, and returns its id.
func (c *count) wait(ctx context.Context) (id string, err error) {
	select {
	case <-c.ready:
		return c.opening.EventID, c.err
	case <-ctx.Done():
		return "", fmt.Errorf("audit record: %w", context.Cause(ctx))
	}
}

// over ends the counts that are over and returns them. busy reports whether to call it again later.
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

// end ends all counts whose opening record is stored, and returns them.
func (f *aggregates) end() []*count {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.endAll(func(*count) bool { return true })
}

// endAll ends the counts whose opening record is stored and for which done returns true. The caller holds f.mu.
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
