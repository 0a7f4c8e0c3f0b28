package dispatcher

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Bounds of ending early what nobody is there to take.
const (
	poolAbsentEvery = 250 * time.Millisecond // how often empty pools are sought
	deserters       = 8                      // attempts worked on at once: deadlines have their own
	// How old an attempt is at least, so that it is certain what its pool was like when it was stored; and how
	// much longer one of another dispatcher is left to that.
	leastAge   = 300 * time.Millisecond
	othersWait = 500 * time.Millisecond
)

// watch keeps the deadline of an open attempt, and counts it among those that wait in its pool until it is claimed.
// shown says that the log has just shown it.
func (d *Dispatcher) watch(s call.State, a call.Attempt, shown bool) {
	g := d.deadlinesOf(s.Partition)
	g.open(s.Tool, s.ID, a, d.backup(s.ID, a), shown)
	g.count(&d.opened, s, a)
	early := a.At.Time().Add(leastAge)
	if !strings.HasPrefix(a.Nonce, d.Instance) {
		early = early.Add(othersWait)
	}
	g.queue(s, a, early)
}

// queue notes that a watched attempt waits in a pool, or that it was claimed.
func (g *deadlineWatch) queue(s call.State, a call.Attempt, early time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.byKey[call.AttemptKey{ID: s.ID, N: a.N}]
	switch {
	case d == nil || d.admitted != a.Admitted:
	case a.Claim != nil:
		g.unqueue(d)
		d.claimed = true
	case d.pool == nil && !d.claimed:
		pool := g.queued[s.Pool]
		if pool == nil {
			pool = &poolQueue{name: strings.Clone(s.Pool)}
			g.queued[pool.name] = pool
		}
		pool.waiting++
		d.pool, d.early, d.tried = pool, early, false
	}
}

// poolQueue counts the attempts that wait in a pool.
type poolQueue struct {
	name    string
	waiting int
}

// unqueue notes that d does not wait any more. Callers hold g.mu.
func (g *deadlineWatch) unqueue(d *openAttempt) {
	if d.pool == nil {
		return
	}
	if d.pool.waiting--; d.pool.waiting == 0 {
		delete(g.queued, d.pool.name)
	}
	d.pool = nil
}

// waiting adds to counts how many attempts wait, by pool.
func (g *deadlineWatch) waiting(counts map[string]int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for pool, q := range g.queued {
		counts[pool] += q.waiting
	}
}

// Waiting returns how many open attempts nobody has claimed, by pool. Pure and idempotent ones among them may run.
func (d *Dispatcher) Waiting() map[string]int {
	counts := map[string]int{}
	for _, g := range d.deadlines {
		g.waiting(counts)
	}
	return counts
}

// withoutExecutors returns the attempts that wait in one of the pools and are old enough, each of them once. Those
// whose deadline has passed are timed out.
func (g *deadlineWatch) withoutExecutors(pools map[string]bool, now time.Time) (found []*openAttempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range g.byKey {
		if d.pool != nil && !d.tried && pools[d.pool.name] && !now.Before(d.early) && now.Before(d.place.At()) {
			d.tried = true
			found = append(found, d)
		}
	}
	return found
}

// again lets d be tried once more.
func (g *deadlineWatch) again(d *openAttempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d.tried = false
}

// endPoolAbsent ends attempts before their deadlines that nobody is there to take, until ctx ends.
func (d *Dispatcher) endPoolAbsent(ctx context.Context) {
	if d.PoolEvidence == nil {
		return
	}
	for timer.Sleep(ctx, poolAbsentEvery) {
		if pools := d.empty(); len(pools) > 0 {
			for _, g := range d.deadlines {
				d.endAll(ctx, g, g.withoutExecutors(pools, d.Now()))
			}
		}
	}
}

// empty returns the pools with waiting calls of which nobody has lived for long enough.
func (d *Dispatcher) empty() map[string]bool {
	empty := map[string]bool{}
	for pool := range d.Waiting() {
		if since := d.PoolEvidence.AbsentSince(pool); !since.IsZero() && d.Now().Sub(since) >= d.PoolAbsence {
			empty[pool] = true
		}
	}
	return empty
}

func (d *Dispatcher) endAll(ctx context.Context, g *deadlineWatch, found []*openAttempt) {
	crew := flow.NewBoundedWorkerPool(deserters, func(job *openAttempt) {
		d.safely("a call without executors", func() { d.endOne(ctx, g, job) })
	})
	defer crew.Wait()
	for _, job := range found {
		if ctx.Err() == nil {
			crew.Start(job)
		}
	}
}

// endOne ends an attempt that nobody is there to take, unless somebody may have taken it, and tells its owner.
func (d *Dispatcher) endOne(ctx context.Context, g *deadlineWatch, job *openAttempt) {
	o, err := d.end(ctx, job, call.TraceBeforePoolAbsent, call.PoolAbsent, call.ByDispatcher)
	switch {
	case errors.Is(err, outcome.ErrMayHaveRun), errors.Is(err, outcome.ErrAttemptGone), errors.Is(err,
		outcome.ErrUnreadable):
		return // its deadline stands
	case err != nil:
		if ctx.Err() == nil {
			d.Logger.Warn("not ended for want of executors yet", "call", job.id, "err", err)
			g.again(job)
		}
	default:
		d.ended(ctx, g, job, o)
	}
}
