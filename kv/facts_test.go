package kv_test

import (
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/kv"
)

// A decision of a pure call with other facts than its request is passed over, also behind a join
// and behind the outcome. Reading what the log allows takes two messages.
func TestForeignFactsArePassedOver(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	e := admission(t, call.State{}, "pure", "A", time.Minute)
	e.State.Class, e.State.Lookup = call.Pure, ""
	s, err := f.log.Write(t.Context(), e, body)
	if err != nil {
		t.Fatal(err)
	}
	foreign := func(s call.State) call.State {
		t.Helper()
		lie := success(s, "other.9", func(s *call.State, a *call.Attempt) { a.Owner.Actor, s.Tenant = "victim", "other" })
		end := f.put(t, lie, kv.EncodeEvent(lie))
		last, err := f.log.Read(t.Context(), s.Tool, s.ID)
		if err != nil || last.State.Tenant != s.Tenant || last.State.Last().Owner != s.Last().Owner || last.State.Seq != end {
			t.Fatalf("read as %+v, %v", last.State, err)
		}
		return last.State
	}
	s = foreign(s)
	join, _ := call.JoinAll(s, 1, []string{"B"}, "d-1.2")
	if s, err = f.log.Write(t.Context(), join, nil); err != nil {
		t.Fatal(err)
	}
	if s = foreign(s); !s.Last().Open() || len(s.Last().Joined) != 1 {
		t.Errorf("behind a join: %+v", s.Last())
	}
	if s, err = f.log.Write(t.Context(), success(s, "c-claimer", nil), body); err != nil {
		t.Fatal(err)
	}
	if s = foreign(s); s.Last().Decision == nil || s.Last().Decision.Nonce != "c-claimer" {
		t.Errorf("behind the outcome: %+v", s.Last())
	}

	e.State.ID = "plain"
	if s, err = f.log.Write(t.Context(), e, body); err == nil {
		_, err = f.log.Write(t.Context(), success(s, "c-claimer", nil), body)
	}
	if err != nil {
		t.Fatal(err)
	}
	sent := f.js.Conn().Stats().OutMsgs
	if _, err := f.log.Read(t.Context(), s.Tool, "plain"); err != nil {
		t.Fatal(err)
	}
	if sent = f.js.Conn().Stats().OutMsgs - sent; sent != 2 {
		t.Errorf("%d messages", sent)
	}
}
