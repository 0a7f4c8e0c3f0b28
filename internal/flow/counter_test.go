package flow

import (
	"testing"
	"time"
)

// Items are counted once, whether they are held or added, and limits and standings count both.
func TestCounters(t *testing.T) {
	var o Counters
	now := time.Unix(1000, 0)
	hold := func(id, actor string) *OpenLimitError {
		_, full := o.Hold(Item{id, "r"}, Sender{"t", actor}, actor, 2, 3, now)
		return full
	}
	add := func(id, actor string) *Counter { return o.Add(Item{id, "r"}, Sender{"t", actor}, actor, now) }
	hold("1", "a")
	hold("2", "a")
	if full := hold("3", "a"); full == nil || full.Of != "actor" || full.Open != 2 || full.Most != 2 || full.Wait <= 0 {
		t.Errorf("a third one of an actor: %+v", full)
	}
	hold("3", "b")
	second, third := add("2", "a"), add("3", "b")
	if full := hold("4", "c"); full == nil || full.Of != "tenant" {
		t.Errorf("a fourth one of a tenant: %+v", full)
	}
	if open := o.Tenants(); len(open) != 1 || open["t"] != 3 {
		t.Errorf("open by tenant: %v", open)
	}
	if s, full := o.Hold(Item{"1", "u"}, Sender{"u", "a"}, "a", 2, 3, now); full != nil || s != (Standing{1, 1, 1, 2, 4}) {
		t.Errorf("one of another tenant: %+v, %+v", s, full)
	}
	for range 2 { // the second is held no more
		o.Drop(Item{"1", "r"})
	}
	o.Drop(Item{"2", "r"})
	if full := hold("4", "a"); full != nil {
		t.Errorf("once one was dropped: %+v", full)
	}
	for _, one := range []*Counter{second, third, add("4", "a")} {
		o.Remove(one, now.Add(time.Second))
	}
	if o.all.of("t") != nil || o.all.open != 1 || len(o.held) != 1 {
		t.Errorf("left are %+v", &o)
	}
}
