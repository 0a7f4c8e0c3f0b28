package call_test

import (
	"errors"
	"hash/maphash"
	"reflect"
	"slices"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// TestFactsOfUnboundLogs: a claim or a decision of a log that is not bound may not change what the requests state, and
// the hash of that is another one. Who joined, claimed and decided is no such fact.
func TestFactsOfUnboundLogs(t *testing.T) {
	t.Parallel()
	free, seed := claimed(t, "").state, maphash.MakeSeed()
	e := decision(free, "claimer", envelope.Success, envelope.EffectApplied, call.ByExecutor)
	changed := 0
	holds := func(name string, s call.State) {
		changed++
		may := slices.Contains([]string{"More", "Undecoded", "Joined", "Claim", "Decision"}, name)
		if err := s.Allows(e); errors.Is(err, call.ErrForeign) == may {
			t.Errorf("%s: %v", name, err)
		}
		if same := s.FactsHash(seed) == free.FactsHash(seed); same != may {
			t.Errorf("%s: the same hash %t", name, same)
		}
	}
	each(reflect.TypeFor[call.Pinned](), func(i int, name string) {
		s := free
		if change(reflect.ValueOf(&s.Pinned).Elem().Field(i)); name != "Lookup" { // that binds the log
			holds(name, s)
		}
	})
	each(reflect.TypeFor[call.Attempt](), func(i int, name string) {
		s := free
		s.Attempts = slices.Clone(s.Attempts)
		change(reflect.ValueOf(&s.Attempts[0]).Elem().Field(i))
		holds(name, s)
	})
	each(reflect.TypeFor[call.Owner](), func(i int, name string) {
		s := free
		s.Attempts = slices.Clone(s.Attempts)
		change(reflect.ValueOf(&s.Attempts[0].Owner).Elem().Field(i))
		holds("Owner."+name, s)
	})
	if changed < 35 {
		t.Errorf("only %d members were changed", changed)
	}
}
