package app

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// An actor, or all actors of a tenant, that filled the payload store are over quota for overQuotaTime; others are not.
func TestSharesRememberTheGreedy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShares(nil)
		one := subjects.Owner{Tenant: "acme", Actor: "agent://a"}
		other := subjects.Owner{Tenant: "acme", Actor: "agent://b"}
		s.note(streaming.Cut{Tenant: "acme", Actor: subjects.Token(one.Actor)}, time.Now())
		if s.OverQuota(one) != overQuotaTime || s.OverQuota(other) != 0 {
			t.Errorf("%s, %s", s.OverQuota(one), s.OverQuota(other))
		}
		<-time.After(overQuotaTime)
		if s.OverQuota(one) != 0 {
			t.Errorf("still after %s", overQuotaTime)
		}
		s.note(streaming.Cut{Tenant: "acme"}, time.Now())
		if s.OverQuota(other) != overQuotaTime || s.OverQuota(subjects.Owner{Tenant: "other", Actor: "agent://b"}) != 0 {
			t.Error("it is not all of the tenant")
		}
		if len(s.over) != 1 {
			t.Errorf("%d are remembered", len(s.over))
		}
	})
}

// Each time a fraction of the store was stored, a check is requested, however small the parts are.
func TestSharesLookAsTheStoreFills(t *testing.T) {
	s := newShares(nil)
	looks := func() (n int) {
		for range 4 * firstStep / streaming.LeastPart {
			s.Stored(1)
			select {
			case <-s.look:
				n++
			default:
			}
		}
		return n
	}
	if n := looks(); n != 4 {
		t.Errorf("it was looked at %d times", n)
	}
	s.step.Store(2 * firstStep)
	if n := looks(); n != 2 {
		t.Errorf("a store of twice the size was looked at %d times", n)
	}
}
