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

// Limits of ending attempts early because their pool has no executor.
const (
	poolAbsentEvery = 250 * time.Millisecond // interval of the checks for absent pools
	deserters       = 8                      // attempts of a partition that are ended at once, besides deadlines
	// leastAge is the smallest age of an attempt to be ended: only then is it certain whether its pool was absent when it
	// was stored. An attempt of another dispatcher must be older by othersWait, so that its own dispatcher ends it first.
	leastAge   = 300 * time.Millisecond
	othersWait = 500 * time.Millisecond
)

// watch starts to watch the deadline of an open attempt, and counts it as waiting in its pool until it is claimed.
// shown means that the follower has just read an event of it.
func (d *Dispatcher) watch(s call.State, a call.Attempt, shown bool) {
	g := d.deadlinesOf(s.Position)
	g.open(s.Tool, s.ID, a, d.backup(s.ID, a), shown)
	g.count(&d.opened, s, a)
	early := a.At.Time().Add(leastAge)
	if !strings.HasPrefix(a.Nonce, d.Instance) {
		early = early.Add(othersWait)
	}
	g.bind(s, a, early)
	g.queue(s, a)
}

// queue records that a watched attempt waits in its pool, or that it was claimed.
func (g *deadlineWatch) queue(s call.State, a call.Attempt) {
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
		d.pool, d.tried = pool, false
	}
}

// poolQueue is the number of attempts that wait in a pool.
type poolQueue struct {
	name    string
	waiting int
}

// unqueue records that d no longer waits. Callers hold g.mu.
func (g *deadlineWatch) unqueue(d *openAttempt) {
	if d.pool == nil {
		return
	}
	if d.pool.waiting--; d.pool.waiting == 0 {
		delete(g.queued, d.pool.name)
	}
	d.pool = nil
}

// waiting adds the numbers of waiting attempts to counts, by pool.
func (g *deadlineWatch) waiting(counts map[string]int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for pool, q := range g.queued {
		counts[pool] += q.waiting
	}
}

// Waiting returns the numbers of open attempts without a claim, by pool. Attempts of pure and idempotent tools may run
// without a claim.
func (d *Dispatcher) Waiting() map[string]int {
	counts := map[string]int{}
	for _, g := range d.deadlines {
		g.waiting(counts)
	}
	return counts
}

// withoutExecutors returns the attempts that wait in one of the pools and are old enough, each of them once. It leaves
// out those whose deadline has passed, which expire ends.
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

// again makes withoutExecutors return d once more.
func (g *deadlineWatch) again(d *openAttempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d.tried = false
}

// endPoolAbsent ends attempts of absent pools before their deadlines, until ctx ends.
func (d *Dispatcher) endPoolAbsent(ctx context.Context) {
	if d.PoolEvidence == nil {
		return
	}
	for timer.Sleep(ctx, poolAbsentEvery) {
		if pools := d.empty(); len(pools) > 0 {
			for _, g := range d.deadlines {
				d.endAll(ctx, g.withoutExecutors(pools, d.Now()), func(job *openAttempt) { d.endOne(ctx, g, job) })
			}
		}
	}
}

// empty returns the pools with waiting attempts that have had no live executor for PoolAbsence.
func (d *Dispatcher) empty() map[string]bool {
	empty := map[string]bool{}
	for pool := range d.Waiting() {
		if since := d.PoolEvidence.AbsentSince(pool); !since.IsZero() && d.Now().Sub(since) >= d.PoolAbsence {
			empty[pool] = true
		}
	}
	return empty
}

// endAll calls end for each of the attempts, for several at once, and returns when all calls have returned.
func (d *Dispatcher) endAll(ctx context.Context, found []*openAttempt, end func(*openAttempt)) {
	crew := flow.NewBoundedWorkerPool(deserters, func(job *openAttempt) {
		d.safely("a call without executors", func() { end(job) })
	})
	defer crew.Wait()
	for _, job := range found {
		if ctx.Err() == nil {
			crew.Start(job)
		}
	}
}

// endOne ends an attempt of an absent pool, unless an executor may have started it, and sends its owner the outcome.
func (d *Dispatcher) endOne(ctx context.Context, g *deadlineWatch, job *openAttempt) {
	o, err := d.end(ctx, job, call.TraceBeforePoolAbsent, ending{cause: call.PoolAbsent, by: call.ByDispatcher})
	switch {
	case errors.Is(err, outcome.ErrMayHaveRun), errors.Is(err, outcome.ErrAttemptGone), errors.Is(err,
		outcome.ErrUnreadable):
		return // the attempt ends at its deadline
	case err != nil:
		if ctx.Err() == nil {
			d.Logger.Warn("not ended for want of executors yet", "call", job.id, "err", err)
			g.again(job)
		}
	default:
		d.ended(ctx, g, job, o)
	}
}
