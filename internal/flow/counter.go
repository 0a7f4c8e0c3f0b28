package flow

import (
	"strings"
	"sync"
	"time"
)

// Counters counts the open items, such as calls, of each tenant, each family of actors, and each actor. The zero value
// is ready to use. It is safe for concurrent use.
type Counters struct {
	mu   sync.Mutex
	all  Counter
	held map[Item]*Counter // of items that Hold has counted and Add has not
}

// Item is an open item: its id, and the id of the request that opens it.
type Item struct{ ID, Request string }

// Counter is the number of open items of an actor, of a family, of a tenant or of all.
type Counter struct {
	name  string
	above *Counter // of the family, for a sub-actor; of the tenant, for a family
	below map[string]*Counter
	open  int
	pace  Throughput // at which items end
}

// of returns the counter of a name below t. It returns nil if the name has no open items.
func (t *Counter) of(name string) *Counter {
	if t == nil {
		return nil
	}
	return t.below[name]
}

// Within reports whether t counts items of the actor, or of any actor of the tenant if actor is "". It must be a
// counter that [Counters.Add] has returned.
func (t *Counter) Within(tenant, actor string) bool {
	of := t.above
	if of.above.above != nil { // t is of a sub-actor
		of = of.above
	}
	return of.name == tenant && (actor == "" || t.name == actor)
}

func (t *Counter) make(name string) *Counter {
	b := t.below[name]
	if b == nil {
		b = &Counter{name: strings.Clone(name), above: t}
		if t.below == nil {
			t.below = map[string]*Counter{}
		}
		t.below[b.name] = b
	}
	return b
}

// Add counts one more open item of an actor, which belongs to the family of the sender. If the item is held, it is
// counted already, and is not held any more. The caller must pass the returned counter to [Counters.Remove] once.
func (o *Counters) Add(item Item, family Sender, actor string, now time.Time) *Counter {
	o.mu.Lock()
	defer o.mu.Unlock()
	if of := o.held[item]; of != nil {
		delete(o.held, item)
		return of
	}
	return o.add(family, actor, now)
}

// Tenants returns the number of open items of each tenant that has any.
func (o *Counters) Tenants() map[string]int {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := make(map[string]int, len(o.all.below))
	for name, of := range o.all.below {
		all[name] = of.open
	}
	return all
}

func (o *Counters) add(family Sender, actor string, now time.Time) *Counter {
	of := o.all.make(family.Tenant).make(family.Actor)
	if actor != family.Actor {
		of = of.make(actor)
	}
	for t := of; t != nil; t = t.above {
		if t.open == 0 {
			t.pace.Start(now)
		}
		t.open++
	}
	return of
}

// OpenLimitError means that a family of actors or a tenant has reached its limit of open items.
type OpenLimitError struct {
	Of         string // "actor" or "tenant"
	Open, Most int
	Wait       time.Duration // estimated time until another item is permitted
}

// Hold counts an item that is about to be opened, until [Counters.Drop] unless Add follows. If the family has perActor
// open items, or the tenant perTenant, it counts nothing and returns full. The standing includes the new item.
func (o *Counters) Hold(item Item, family Sender, actor string, perActor, perTenant int, now time.Time) (
	s Standing, full *OpenLimitError) {
	o.mu.Lock()
	defer o.mu.Unlock()
	has := o.all.of(family.Tenant)
	if own := has.of(family.Actor); own != nil && own.open >= perActor {
		return s, own.reached("actor", perActor, now)
	}
	if has != nil && has.open >= perTenant {
		return s, has.reached("tenant", perTenant, now)
	}
	if o.held == nil {
		o.held = map[Item]*Counter{}
	}
	o.held[item] = o.add(family, actor, now)
	has = o.all.of(family.Tenant)
	return Standing{
		Family: has.of(family.Actor).open, Families: len(has.below),
		Tenant: has.open, Tenants: len(o.all.below), All: o.all.open,
	}, nil
}

func (t *Counter) reached(of string, most int, now time.Time) *OpenLimitError {
	return &OpenLimitError{of, t.open, most, t.pace.Wait(int64(1+t.open-most), now)}
}

// Remove removes an item that has ended from the counts.
func (o *Counters) Remove(t *Counter, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ; t != nil; t = t.above {
		t.pace.Ended(now)
		t.less()
	}
}

// Drop removes an item that is held from the counts: it was not opened. It does not change the throughput. If the item
// is not held, Drop does nothing.
func (o *Counters) Drop(item Item) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for t := o.held[item]; t != nil; t = t.above {
		t.less()
	}
	delete(o.held, item)
}

func (t *Counter) less() {
	if t.open--; t.open == 0 && t.above != nil {
		delete(t.above.below, t.name)
	}
}
