package dispatcher

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Builds reports which builds of tools the live executors of a pool do not have, as they say in their heartbeats.
type Builds interface {
	// Lacking reports whether all executors of a pool that were heard say that they do not have a build of a tool. It
	// sends no messages.
	Lacking(pool, tool, build string) bool
	// NoneHas reports whether that is certain: it reads the heartbeats. It returns the digests of the builds that the
	// executors have instead.
	NoneHas(ctx context.Context, pool, tool, build string) (has []string, certain bool, err error)
}

// build is a build of a tool, in the pool that must run it.
type build struct{ pool, tool, digest string }

// openBuild is the number of undecided attempts that were admitted for a build.
type openBuild struct {
	build
	open int
}

// bind records for which build a watched attempt was admitted, and the earliest time to end it for want of executors.
func (g *deadlineWatch) bind(s call.State, a call.Attempt, early time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.byKey[call.AttemptKey{ID: s.ID, N: a.N}]
	if d == nil || d.admitted != a.Admitted || d.build != nil {
		return
	}
	d.early = early
	d.build = g.builds[build{s.Pool, s.Tool, s.Digest}]
	if d.build == nil {
		// Copy the strings: they share the memory of a whole message.
		d.build = &openBuild{build: build{strings.Clone(s.Pool), strings.Clone(s.Tool), strings.Clone(s.Digest)}}
		g.builds[d.build.build] = d.build
	}
	d.build.open++
}

// unbuild undoes bind. Callers hold g.mu.
func (g *deadlineWatch) unbuild(d *openAttempt) {
	if d.build == nil {
		return
	}
	if d.build.open--; d.build.open == 0 {
		delete(g.builds, d.build.build)
	}
	d.build = nil
}

// lacking returns the builds with undecided attempts that all executors of their pools say they do not have.
func (g *deadlineWatch) lacking(of Builds) (all []build) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for b := range g.builds {
		if of.Lacking(b.pool, b.tool, b.digest) {
			all = append(all, b)
		}
	}
	return all
}

// admittedFor returns the undecided attempts of a build that are old enough, each of them once. It leaves out those
// whose deadline has passed, which expire ends.
func (g *deadlineWatch) admittedFor(b build, now time.Time) (found []*openAttempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range g.byKey {
		if d.build != nil && d.build.build == b && !d.unbuilt && !now.Before(d.early) && now.Before(d.place.At()) {
			d.unbuilt = true
			found = append(found, d)
		}
	}
	return found
}

// endBuildAbsent ends attempts before their deadlines if no live executor of their pool has the build that they were
// admitted for, until ctx ends. The effect is that which the log proves: a claimed call of a side-effectful tool ends
// with an unknown one.
func (d *Dispatcher) endBuildAbsent(ctx context.Context) {
	if d.Builds == nil {
		return
	}
	for timer.Sleep(ctx, poolAbsentEvery) {
		for _, g := range d.deadlines {
			for _, b := range g.lacking(d.Builds) {
				d.endBuild(ctx, g, b)
			}
		}
	}
}

// endBuild ends the attempts of a build, if it is certain that no live executor has it.
func (d *Dispatcher) endBuild(ctx context.Context, g *deadlineWatch, b build) {
	here, certain, err := d.Builds.NoneHas(ctx, b.pool, b.tool, b.digest)
	if err != nil && ctx.Err() == nil {
		d.Logger.Warn("the heartbeats of a pool cannot be read", "pool", b.pool, "err", err)
	}
	if !certain {
		return
	}
	found := g.admittedFor(b, d.Now())
	if len(found) > 0 {
		d.Logger.Warn("ending calls: no live executor has the build that they were admitted for", "tool", b.tool,
			"pool", b.pool, "admitted", call.ShortDigest(b.digest), "calls", len(found))
	}
	d.endAll(ctx, found, func(job *openAttempt) { d.endWithoutBuild(ctx, g, job, here) })
}

// endWithoutBuild ends an attempt whose build no live executor has, and sends its owner the outcome.
func (d *Dispatcher) endWithoutBuild(ctx context.Context, g *deadlineWatch, job *openAttempt, here []string) {
	o, err := d.end(ctx, job, call.TraceBeforeNoBuild,
		ending{cause: call.BuildAbsent, by: call.ByDispatcher, here: here})
	switch {
	case errors.Is(err, outcome.ErrAttemptGone), errors.Is(err, outcome.ErrUnreadable):
		return // the attempt ends at its deadline
	case err != nil:
		if ctx.Err() == nil {
			d.Logger.Warn("not ended for want of its build yet", "call", job.id, "err", err)
			g.mu.Lock()
			job.unbuilt = false
			g.mu.Unlock()
		}
	default:
		d.ended(ctx, g, job, o)
	}
}

// withoutBuild returns the error of an attempt of s whose build no live executor has.
func withoutBuild(s call.State, here []string) *envelope.Error {
	message, fix := call.WithoutBuild(s, here)
	return envelope.NewError(envelope.CodeUnavailable, message).WithFix(fix)
}
