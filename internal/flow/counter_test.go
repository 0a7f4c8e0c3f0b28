package flow

import (
	"testing"
	"time"
)

func TestTallies(t *testing.T) {
	var o Counters
	now := time.Unix(1000, 0)
	hold := func(actor string) (*Counter, *OpenLimitError) {
		of, _, full := o.Hold(Sender{"t", actor}, actor, 2, 3, now)
		return of, full
	}
	first, _ := hold("a")
	second, _ := hold("a")
	if _, full := hold("a"); full == nil || full.Of != "actor" || full.Open != 2 || full.Most != 2 || full.Wait <= 0 {
		t.Errorf("a third one of an actor: %+v", full)
	}
	third, _ := hold("b")
	if _, full := hold("c"); full == nil || full.Of != "tenant" {
		t.Errorf("a fourth one of a tenant: %+v", full)
	}
	if _, s, full := o.Hold(Sender{"u", "a"}, "a", 2, 3, now); full != nil || s != (Standing{1, 1, 1, 2, 4}) {
		t.Errorf("one of another tenant: %+v", full)
	}
	o.Drop(first)
	o.Drop(nil)
	again, full := hold("a")
	if full != nil {
		t.Errorf("once one was dropped: %+v", full)
	}
	for _, one := range []*Counter{second, third, again} {
		o.Remove(one, now.Add(time.Second))
	}
	if o.all.of("t") != nil || o.all.open != 1 {
		t.Errorf("left are %+v", o.all)
	}
}
