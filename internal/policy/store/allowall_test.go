package store_test

import (
	"context"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy/store"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// allowing returns the service of a process with these tools, which counts its records.
func allowing(t *testing.T, b *bustest.Bus, recorded *int, ids ...string) *store.Service {
	t.Helper()
	var tools []*tool.Manifest
	for _, id := range ids {
		tools = append(tools, &tool.Manifest{ToolID: id, Semver: "1.0.0", Status: tool.StatusActive, Class: call.Pure})
	}
	s, err := store.Open(t.Context(), b.JS, tools, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &store.Service{Store: s, Record: func(context.Context, call.Sender, envelope.PolicyPushRequest) error {
		*recorded++
		return nil
	}}
}

// allows reports whether a tool may be called, by what its process decides by at this moment.
func allows(t *testing.T, s *store.Service, id string) bool {
	t.Helper()
	now, err := s.Store.Current()
	if err != nil {
		t.Fatal(err)
	}
	return len(now.WhoCan(id)) > 0
}

// AllowAll makes one version for the same tools, and another one for others. What it pushes is in force in its process
// when it returns.
func TestAllowAll(t *testing.T) {
	b, recorded, by := bustest.Start(t), 0, call.Sender{Tenant: "default", Actor: "dispatcher://x"}
	one, two := allowing(t, b, &recorded, "echo"), allowing(t, b, &recorded, "echo", "text.search")
	for n, c := range []struct {
		in   *store.Service
		want int // records so far
	}{{one, 1}, {one, 1}, {two, 2}, {two, 2}, {one, 3}} {
		if err := c.in.AllowAll(t.Context(), by, "agent", "default"); err != nil {
			t.Fatal(err)
		}
		if recorded != c.want || !allows(t, c.in, "echo") || allows(t, c.in, "text.search") != (c.in == two) {
			t.Errorf("%d: %d records; want %d, and every tool allowed", n, recorded, c.want)
		}
	}
	all, err := one.Store.History(t.Context())
	if err != nil || len(all) != 3 || all[0].By != "default/dispatcher://x" || all[0].Reason == "" {
		t.Errorf("the history is %+v, %v", all, err)
	}
}

// After Refit the policy in force is that of other tools, unless it does not fit them.
func TestRefit(t *testing.T) {
	b, recorded, by := bustest.Start(t), 0, call.Sender{Tenant: "default", Actor: "dispatcher://x"}
	s := allowing(t, b, &recorded, "echo")
	if err := s.AllowAll(t.Context(), by, "agent", "default"); err != nil {
		t.Fatal(err)
	}
	more := []*tool.Manifest{
		{ToolID: "echo", Semver: "1.1.0", Status: tool.StatusActive, Class: call.Pure},
		{ToolID: "text.search", Semver: "1.0.0", Status: tool.StatusActive, Class: call.Pure},
	}
	s.Store.Use(more)
	if err := s.Store.Refit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !allows(t, s, "echo") {
		t.Error("the tool is not allowed")
	}
	more[0].Class = call.SideEffectful // the set has no write targets for it
	s.Store.Use(more)
	if err := s.Store.Refit(t.Context()); err == nil {
		t.Error("a set without write targets fits a tool that writes")
	}
	if err := s.AllowAll(t.Context(), by, "agent", "default"); err != nil {
		t.Fatal(err)
	}
	if err := s.Store.Refit(t.Context()); err != nil || !allows(t, s, "echo") || !allows(t, s, "text.search") {
		t.Errorf("a tool is not allowed: %v", err)
	}
}

// AllowAll leaves the set of an operator alone, whatever its reason is.
func TestAllowAllYields(t *testing.T) {
	b, recorded, by := bustest.Start(t), 0, call.Sender{Tenant: "default", Actor: "dispatcher://x"}
	s := allowing(t, b, &recorded, "echo")
	if err := s.AllowAll(t.Context(), by, "agent", "default"); err != nil {
		t.Fatal(err)
	}
	first, err := s.Store.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	operators := set("of an operator")
	open(t, b).put(operators)
	q := envelope.PolicyPushRequest{Versions: operators.Versions(), Expected: first.Revision, Reason: first.Reason}
	if _, refusal := s.Push(t.Context(), root, q); refusal != nil {
		t.Fatal(refusal)
	}
	if err := s.AllowAll(t.Context(), by, "agent", "default"); err != nil {
		t.Fatal(err)
	}
	if now, err := s.Store.Current(); err != nil || now.Versions() != operators.Versions() {
		t.Errorf("another set than the operator's is in force: %v", err)
	}
}

// After an operator has put a set of AllowAll in force again, AllowAll replaces it for other tools.
func TestAllowAllAfterReset(t *testing.T) {
	b, recorded, by := bustest.Start(t), 0, call.Sender{Tenant: "default", Actor: store.AllowAllActor}
	one, two := allowing(t, b, &recorded, "echo"), allowing(t, b, &recorded, "echo", "text.search")
	if err := one.AllowAll(t.Context(), by, "agent", "default"); err != nil {
		t.Fatal(err)
	}
	first, err := one.Store.Newest(t.Context())
	if err != nil || !store.MadeByAllowAll(first) {
		t.Fatalf("%+v, %v", first, err)
	}
	operators, expected := set("of an operator"), first.Revision
	open(t, b).put(operators)
	for _, v := range []envelope.PolicyVersions{operators.Versions(), first.Versions} {
		pushed, refusal := one.Push(t.Context(), root, envelope.PolicyPushRequest{Versions: v, Expected: expected})
		if refusal != nil {
			t.Fatal(refusal)
		}
		expected = pushed.Revision
	}
	if err := two.AllowAll(t.Context(), by, "agent", "default"); err != nil {
		t.Fatal(err)
	}
	if !allows(t, two, "text.search") {
		t.Error("a new tool is not allowed after the reset")
	}
}

// AllowAll fails if the push cannot be recorded.
func TestAllowAllUnrecorded(t *testing.T) {
	s := open(t, bustest.Start(t))
	if err := desk(s, context.Canceled).AllowAll(t.Context(), root, "agent", "default"); err == nil {
		t.Error("no error")
	}
}
