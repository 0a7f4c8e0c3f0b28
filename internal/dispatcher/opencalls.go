package dispatcher

import (
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// Defaults of Options. With the default number of slots, an executor can run DefaultOverflowAfter calls of one actor
// from the primary queue and its share of the overflow queue, and still has slots for other actors.
const (
	DefaultOpenPerActor  = 100_000
	DefaultOpenPerTenant = 200_000
	DefaultOverflowAfter = 8
)

// hold counts an attempt that is about to be written, until letGo. By then count has counted the attempt itself, if it
// was written. hold returns a refusal if the actor or the tenant has too many open attempts, and selects the overflow
// queue if the actor has more than OverflowAfter. Dispatchers that admit calls at the same moment do not see each
// other's attempts, and may exceed the limits.
func (d *Dispatcher) hold(a *arrival, pool string) *envelope.Error {
	tenant, actor := a.Ask.Pinned.Tenant, a.Ask.Owner.Actor
	held, nth, full := d.opened.Hold(tenant, actor, d.OpenPerActor, d.OpenPerTenant, time.Now())
	if full == nil {
		a.held = held
		a.Ask.Overflow = nth > d.OverflowAfter && d.PoolEvidence != nil && d.PoolEvidence.PullsOverflow(pool)
		return nil
	}
	message := fmt.Sprintf("%d calls of the %s are open, of %d that may be", full.Open, full.Of, full.Most)
	return envelope.NewError(envelope.CodeOpen, message).WithRetryAfter(full.Wait)
}

// letGo ends the count of hold, if there is one.
func (d *Dispatcher) letGo(a *arrival) {
	d.opened.Drop(a.held)
	a.held = nil
}

// count counts a watched attempt for its tenant and actor, until uncount.
func (g *deadlineWatch) count(o *flow.Counters, s call.State, a call.Attempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.byKey[call.AttemptKey{ID: s.ID, N: a.N}]
	if d != nil && d.admitted == a.Admitted && d.counter == nil {
		d.opened, d.counter = o, o.Add(s.Tenant, a.Owner.Actor, time.Now())
	}
}

// uncount ends the count of the attempt. Callers hold the mu of its deadlineWatch.
func (d *openAttempt) uncount() {
	if d.counter != nil {
		d.opened.Remove(d.counter, time.Now())
		d.counter = nil
	}
}
