package dispatcher

import (
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// How many calls may be open that is not told otherwise, and how many of an actor go ahead. An executor of the default
// slots can run these, and what it always runs of those behind, and has slots left for other actors.
const (
	DefaultOpenPerActor  = 100_000
	DefaultOpenPerTenant = 200_000
	DefaultOverflowAfter = 8
)

// hold counts an attempt that is about to be opened in a pool, until it is let go: one that was, is counted by then.
// Where too many are open already it is refused, and where many are it goes behind; those that other dispatchers
// admit at the same moment may be as many more.
func (d *Dispatcher) hold(a *caller, pool string) *envelope.Error {
	tenant, actor := a.ask.Pinned.Tenant, a.ask.Owner.Actor
	held, nth, full := d.opened.Hold(tenant, actor, d.OpenPerActor, d.OpenPerTenant, time.Now())
	if full == nil {
		a.held = held
		a.ask.Overflow = nth > d.OverflowAfter && d.PoolEvidence != nil && d.PoolEvidence.PullsOverflow(pool)
		return nil
	}
	message := fmt.Sprintf("%d calls of the %s are open, of %d that may be", full.Open, full.Of, full.Most)
	return envelope.NewError(envelope.CodeOpen, message).WithRetryAfter(full.Wait)
}

// letGo ends that, if it was held.
func (d *Dispatcher) letGo(a *caller) {
	d.opened.Drop(a.held)
	a.held = nil
}

// count counts a watched attempt among those of its owner until it is decided.
func (g *deadlineWatch) count(o *flow.Counters, s call.State, a call.Attempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.byKey[call.AttemptKey{ID: s.ID, N: a.N}]
	if d != nil && d.admitted == a.Admitted && d.counter == nil {
		d.opened, d.counter = o, o.Add(s.Tenant, a.Owner.Actor, time.Now())
	}
}

// uncount ends that. Callers hold g.mu.
func (d *openAttempt) uncount() {
	if d.counter != nil {
		d.opened.Remove(d.counter, time.Now())
		d.counter = nil
	}
}
