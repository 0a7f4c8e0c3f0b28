package deadline

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/answer"
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

// poolQueue is the number of attempts that wait in a pool.
type poolQueue struct {
	name    string
	waiting int
}

// queue records that a watched attempt waits in its pool, or that it was claimed.
func (w *watch) queue(s call.State, a call.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.byKey[call.AttemptKey{ID: s.ID, N: a.N}]
	switch {
	case d == nil || d.admitted != a.Admitted:
	case a.Claim != nil:
		w.unqueue(d)
		d.claimed = true
	case d.pool == nil && !d.claimed:
		pool := w.queued[s.Pool]
		if pool == nil {
			pool = &poolQueue{name: strings.Clone(s.Pool)}
			w.queued[pool.name] = pool
		}
		pool.waiting++
		d.pool, d.triedPool = pool, false
	}
}

// unqueue records that d no longer waits. Callers hold w.mu.
func (w *watch) unqueue(d *openAttempt) {
	if d.pool == nil {
		return
	}
	if d.pool.waiting--; d.pool.waiting == 0 {
		delete(w.queued, d.pool.name)
	}
	d.pool = nil
}

// waiting adds the numbers of waiting attempts to counts, by pool.
func (w *watch) waiting(counts map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for pool, q := range w.queued {
		counts[pool] += q.waiting
	}
}

// Waiting returns the numbers of open attempts without a claim, by pool. Attempts of pure and idempotent tools may run
// without a claim.
func (w Watches) Waiting() map[string]int {
	counts := map[string]int{}
	for _, part := range w {
		part.waiting(counts)
	}
	return counts
}

// oldestOf sets the times of the pools in all to those of the oldest waiting attempts, if these are older.
func (w *watch) oldestOf(all map[string]time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := map[string]bool{}
	for _, o := range w.order[:min(len(w.order), maxLook)] {
		if len(found) == len(w.queued) {
			return
		}
		if o.pool == nil || found[o.pool.name] {
			continue
		}
		found[o.pool.name] = true
		if at, ok := all[o.pool.name]; !ok || o.at.Before(at) {
			all[o.pool.name] = o.at
		}
	}
}

// Oldest returns when the oldest of the attempts that Waiting counts was admitted, by pool. It looks at the first
// maxLook open attempts of each partition, and knows nothing of pools that only later ones wait in.
func (w Watches) Oldest() map[string]time.Time {
	all := map[string]time.Time{}
	for _, part := range w {
		part.oldestOf(all)
	}
	return all
}

// early returns the attempts that fit, and are old enough to be ended for a cause before their deadlines, each of them
// once. It leaves out those whose deadline has passed, which expire ends.
func (w *watch) early(cause call.Cause, now time.Time, fits func(*openAttempt) bool) (found []*openAttempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.byKey {
		if tried := d.tried(cause); !*tried && fits(d) && !now.Before(d.early) && now.Before(d.place.At()) {
			*tried = true
			found = append(found, d)
		}
	}
	return found
}

// again makes early return d for the cause once more.
func (w *watch) again(d *openAttempt, cause call.Cause) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*d.tried(cause) = false
}

// tried says whether ending the attempt for the cause was tried. Callers hold the mu of its watch.
func (o *openAttempt) tried(cause call.Cause) *bool {
	if cause == call.BuildAbsent {
		return &o.triedBuild
	}
	return &o.triedPool
}

// endPoolAbsent ends attempts of absent pools before their deadlines, until ctx ends.
func (d *Deadlines) endPoolAbsent(ctx context.Context) {
	if d.PoolEvidence == nil {
		return
	}
	for timer.Sleep(ctx, poolAbsentEvery) {
		pools := d.empty()
		if len(pools) == 0 {
			continue
		}
		waits := func(o *openAttempt) bool { return o.pool != nil && pools[o.pool.name] }
		for _, w := range d.Watches {
			d.endEarly(ctx, w, w.early(call.PoolAbsent, d.Now(), waits), call.TraceBeforePoolAbsent,
				ending{cause: call.PoolAbsent, by: call.ByDispatcher})
		}
	}
}

// empty returns the pools with waiting attempts that have had no live executor for PoolAbsence.
func (d *Deadlines) empty() map[string]bool {
	empty := map[string]bool{}
	for pool := range d.Waiting() {
		if since := d.PoolEvidence.AbsentSince(pool); !since.IsZero() && d.Now().Sub(since) >= d.PoolAbsence {
			empty[pool] = true
		}
	}
	return empty
}

// endEarly ends attempts, several at once, and returns when it has tried each.
func (d *Deadlines) endEarly(ctx context.Context, w *watch, found []*openAttempt, at call.TracePoint, why ending) {
	crew := flow.NewBoundedWorkerPool(deserters, func(job *openAttempt) {
		d.Safely("a call without executors", func() { d.endOne(ctx, w, job, at, why) })
	})
	defer crew.Wait()
	for _, job := range found {
		if ctx.Err() == nil {
			crew.Start(job)
		}
	}
}

// endOne ends an attempt, unless an executor of its absent pool may have started it, and sends its owner the outcome.
func (d *Deadlines) endOne(ctx context.Context, w *watch, job *openAttempt, at call.TracePoint, why ending) {
	o, err := d.end(ctx, job, at, why)
	switch {
	case errors.Is(err, outcome.ErrMayHaveRun), errors.Is(err, outcome.ErrAttemptGone), errors.Is(err,
		outcome.ErrUnreadable), answer.Damaged(err) != nil:
		return // the attempt ends at its deadline
	case err != nil:
		if ctx.Err() == nil {
			d.Logger.Warn("not ended before its deadline yet", "call", job.id, "err", err)
			w.again(job, why.cause)
		}
	default:
		d.ended(ctx, w, job, o)
	}
}

// build is a build of a tool, in the pool that must run it.
type build struct{ pool, tool, digest string }

// openBuild is the number of undecided attempts that were admitted for a build.
type openBuild struct {
	build
	open int
}

// bind records for which build a watched attempt was admitted, and the earliest time to end it for want of executors.
func (w *watch) bind(s call.State, a call.Attempt, early time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.byKey[call.AttemptKey{ID: s.ID, N: a.N}]
	if d == nil || d.admitted != a.Admitted || d.build != nil {
		return
	}
	d.early = early
	d.build = w.builds[build{s.Pool, s.Tool, s.Digest}]
	if d.build == nil {
		// Copy the strings: they share the memory of a whole message.
		d.build = &openBuild{build: build{strings.Clone(s.Pool), strings.Clone(s.Tool), strings.Clone(s.Digest)}}
		w.builds[d.build.build] = d.build
	}
	d.build.open++
}

// unbuild undoes bind. Callers hold w.mu.
func (w *watch) unbuild(d *openAttempt) {
	if d.build == nil {
		return
	}
	if d.build.open--; d.build.open == 0 {
		delete(w.builds, d.build.build)
	}
	d.build = nil
}

// lacking returns the builds with undecided attempts that all executors of their pools say they do not have.
func (w *watch) lacking(of Builds) (all []build) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for b := range w.builds {
		if of.Lacking(b.pool, b.tool, b.digest) {
			all = append(all, b)
		}
	}
	return all
}

// endBuildAbsent ends attempts before their deadlines if no live executor of their pool has the build that they were
// admitted for, until ctx ends. The effect is that which the log proves: a claimed call of a side-effectful tool ends
// with an unknown one.
func (d *Deadlines) endBuildAbsent(ctx context.Context) {
	if d.Builds == nil {
		return
	}
	for timer.Sleep(ctx, poolAbsentEvery) {
		for _, w := range d.Watches {
			for _, b := range w.lacking(d.Builds) {
				d.endBuild(ctx, w, b)
			}
		}
	}
}

// endBuild ends the attempts of a build, if it is certain that no live executor has it.
func (d *Deadlines) endBuild(ctx context.Context, w *watch, b build) {
	here, certain, err := d.Builds.NoneHas(ctx, b.pool, b.tool, b.digest)
	if err != nil && ctx.Err() == nil {
		d.Logger.Warn("the heartbeats of a pool cannot be read", "pool", b.pool, "err", err)
	}
	if !certain {
		return
	}
	found := w.early(call.BuildAbsent, d.Now(), func(o *openAttempt) bool { return o.build != nil && o.build.build == b })
	if len(found) > 0 {
		d.Logger.Warn("ending calls: no live executor has the build that they were admitted for", "tool", b.tool,
			"pool", b.pool, "admitted", call.ShortDigest(b.digest), "calls", len(found))
	}
	d.endEarly(ctx, w, found, call.TraceBeforeNoBuild,
		ending{cause: call.BuildAbsent, by: call.ByDispatcher, here: here})
}

// withoutBuild returns the error of an attempt of s whose build no live executor has.
func withoutBuild(s call.State, here []string) *envelope.Error {
	message, fix := call.WithoutBuild(s, here)
	return envelope.NewError(envelope.CodeUnavailable, message).WithFix(fix)
}
