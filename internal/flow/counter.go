package flow

import (
	"strings"
	"sync"
	"time"
)

// Counters count what each tenant and each actor has open. The zero value is ready; it is safe for concurrent use.
type Counters struct {
	mu  sync.Mutex
	all Counter
}

// Counter is how much of somebody is open.
type Counter struct {
	name  string
	above *Counter // of the tenant of an actor
	below map[string]*Counter
	open  int
	pace  Throughput // at which it ends
}

// of returns the tally of a name below t; nil where nothing is open.
func (t *Counter) of(name string) *Counter {
	if t == nil {
		return nil
	}
	return t.below[name]
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

// Add counts one more. What it returns is to be given to [Counters.Remove], or [Counters.Drop], once.
func (o *Counters) Add(tenant, actor string, now time.Time) *Counter {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.add(tenant, actor, now)
}

func (o *Counters) add(tenant, actor string, now time.Time) *Counter {
	of := o.all.make(tenant).make(actor)
	for t := of; t != nil; t = t.above {
		if t.open == 0 {
			t.pace.Start(now)
		}
		t.open++
	}
	return of
}

// OpenLimitError is how much was open of whose bound is reached.
type OpenLimitError struct {
	Of         string // "actor" or "tenant"
	Open, Most int
	Wait       time.Duration // about how long until there is room
}

// Hold is Add, unless the actor or the tenant has as many open as it may. nth is how many the actor has now.
func (o *Counters) Hold(tenant, actor string, perActor, perTenant int, now time.Time) (of *Counter, nth int,
	full *OpenLimitError) {
	o.mu.Lock()
	defer o.mu.Unlock()
	has := o.all.of(tenant)
	if own := has.of(actor); own != nil && own.open >= perActor {
		return nil, 0, own.reached("actor", perActor, now)
	}
	if has != nil && has.open >= perTenant {
		return nil, 0, has.reached("tenant", perTenant, now)
	}
	of = o.add(tenant, actor, now)
	return of, of.open, nil
}

func (t *Counter) reached(of string, most int, now time.Time) *OpenLimitError {
	return &OpenLimitError{of, t.open, most, t.pace.Wait(int64(1+t.open-most), now)}
}

// Remove counts what has ended no longer.
func (o *Counters) Remove(t *Counter, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ; t != nil; t = t.above {
		t.pace.Ended(now)
		t.less()
	}
}

// Drop counts what has not ended no longer: it was not opened after all, or is counted once more. nil is nothing.
func (o *Counters) Drop(t *Counter) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ; t != nil; t = t.above {
		t.less()
	}
}

func (t *Counter) less() {
	if t.open--; t.open == 0 && t.above != nil {
		delete(t.above.below, t.name)
	}
}
