package writer

import (
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/natstest"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// A caller that repeats a request with the same call id is recorded once.
func TestSharedOnce(t *testing.T) {
	js := natstest.Start(t).JetStream(t)
	if err := bus.Ensure(t.Context(), js, bus.TopologyOptions{}); err != nil {
		t.Fatal(err)
	}
	log, err := kv.OpenLog(t.Context(), js, kv.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v := call.Admit(call.State{}, call.AdmitRequest{
		Owner:  call.Owner{CallID: "owner", Actor: "agent"},
		Pinned: call.Pinned{Tenant: "t", Tool: "echo", ID: "id", Class: call.Pure, Pool: "default"},
	})
	s, err := log.Write(t.Context(), v.Event, []byte(`{"request":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	g := NewJournal(js, "process", time.Now, func() string { return "n" }, nil)
	bustest.Run(t, g.Run)
	for _, asks := range [][]string{{"a"}, {"a"}, {"a", "b"}, {"b", "a"}} {
		var who []call.Owner
		for _, id := range asks {
			who = append(who, call.Owner{CallID: id, Actor: "agent"})
		}
		if err := g.Shared(t.Context(), s, 1, who); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(recorded(t, js)); n != 2 {
		t.Errorf("%d records of two who asked", n)
	}
}

// Joins and late results of a tenant that crowds AUDIT are recorded in SURPLUS, those of others in AUDIT.
func TestJournalOfACrowd(t *testing.T) {
	b := bustest.Start(t)
	g := NewJournal(b.JS, "process", time.Now, func() string { return "n" }, nil)
	g.Shares = crowdedBy("large")
	bustest.Run(t, g.Run)
	for _, tenant := range []string{"large", "small"} {
		s := call.Admit(call.State{}, call.AdmitRequest{
			Owner: call.Owner{CallID: "owner", Actor: "agent"}, Pinned: call.Pinned{Tenant: tenant, Tool: "echo", ID: "id"},
		}).Event.State
		for _, id := range []string{"a", "b"} {
			if err := g.Shared(t.Context(), s, 1, []call.Owner{{CallID: tenant + id, Actor: "agent"}}); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.LateResult(t.Context(), tenant, s, 1, call.Completion{}); err != nil {
			t.Fatal(err)
		}
		narrowed := audit.Record{Event: audit.CredentialNarrowed, EventID: tenant, Tenant: tenant}
		if err := g.Note(t.Context(), narrowed); err != nil {
			t.Fatal(err)
		}
	}
	for _, of := range [][]string{
		{subjects.SurplusStream, subjects.JournalSurplus("process", "large")},
		{subjects.AuditStream, subjects.JournalSubject("process", "small")},
	} {
		s, err := b.JS.Stream(t.Context(), of[0])
		if err != nil {
			t.Fatal(err)
		}
		if n := s.CachedInfo().State.Msgs; n != 4 {
			t.Errorf("%s has %d segments, want 4", of[0], n)
		}
		sequences(b, of[0], of[1]) // forms a chain
	}
}
