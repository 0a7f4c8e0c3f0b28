package dispatcher

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/fair"
)

// How many calls may be open that is not told otherwise.
const (
	DefaultOpenPerActor  = 100_000
	DefaultOpenPerTenant = 200_000
)

// opened counts the open attempts of each tenant and actor, whichever dispatcher has admitted them.
type opened struct {
	mu  sync.Mutex
	all tally
}

// tally is how many attempts of somebody are open.
type tally struct {
	name  string
	above *tally // of the tenant of an actor
	below map[string]*tally
	open  int
	pace  fair.Pace // at which they end
}

// of returns the tally of a name below t; nil where nothing is open.
func (t *tally) of(name string) *tally {
	if t == nil {
		return nil
	}
	return t.below[name]
}

func (t *tally) make(name string) *tally {
	b := t.below[name]
	if b == nil {
		b = &tally{name: strings.Clone(name), above: t}
		if t.below == nil {
			t.below = map[string]*tally{}
		}
		t.below[b.name] = b
	}
	return b
}

// add counts an attempt. What it returns is to be given to remove when it is not open any more.
func (o *opened) add(tenant, actor string, now time.Time) *tally {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.all.make(tenant).make(actor)
	for t := of; t != nil; t = t.above {
		if t.open == 0 {
			t.pace.Start(now)
		}
		t.open++
	}
	return of
}

func (o *opened) remove(t *tally, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ; t != nil; t = t.above {
		t.pace.Ended(now)
		if t.open--; t.open == 0 && t.above != nil {
			delete(t.above.below, t.name)
		}
	}
}

// tooMany refuses a further attempt where too many are open already. Those that are admitted at the same moment, here
// and by other dispatchers, may be as many more.
func (d *Dispatcher) tooMany(a *asker) *envelope.Error {
	d.opened.mu.Lock()
	defer d.opened.mu.Unlock()
	tenant := d.opened.all.of(a.ask.Facts.Tenant)
	actor := tenant.of(a.ask.Owner.Actor)
	switch {
	case actor != nil && actor.open >= d.OpenPerActor:
		return actor.refusal("actor", d.OpenPerActor)
	case tenant != nil && tenant.open >= d.OpenPerTenant:
		return tenant.refusal("tenant", d.OpenPerTenant)
	}
	return nil
}

func (t *tally) refusal(whose string, most int) *envelope.Error {
	message := fmt.Sprintf("%d calls of the %s are open, of %d that may be", t.open, whose, most)
	wait := t.pace.Wait(int64(1+t.open-most), time.Now())
	return envelope.NewError(envelope.CodeOpen, message).WithRetryAfter(wait)
}

// count counts a watched attempt among those of its owner until it is decided.
func (g *guard) count(o *opened, s call.State, a call.Attempt) {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.byKey[call.AttemptKey{ID: s.ID, N: a.N}]
	if d != nil && d.admitted == a.Admitted && d.tally == nil {
		d.opened, d.tally = o, o.add(s.Tenant, a.Owner.Actor, time.Now())
	}
}

// uncount ends that. Callers hold g.mu.
func (d *due) uncount() {
	if d.tally != nil {
		d.opened.remove(d.tally, time.Now())
		d.tally = nil
	}
}
