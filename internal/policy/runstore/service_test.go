package runstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/runstore"
)

// office is the service of a process, with what it has recorded.
type office struct {
	*runstore.Service
	p         process
	mu        sync.Mutex // of events
	events    []audit.Record
	refuses   error
	inForce   *policy.Snapshot
	noInForce error
}

func serve(t *testing.T) *office {
	o := &office{p: open(t, bustest.Start(t)), inForce: snapshot(t, "first")}
	o.Service = &runstore.Service{
		Store: o.p.Store, DefaultRole: "agent",
		Record: func(_ context.Context, r audit.Record) error {
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.refuses == nil {
				o.events = append(o.events, r)
			}
			return o.refuses
		},
		Policy: func(context.Context) (*policy.Snapshot, error) { return o.inForce, o.noInForce },
	}
	return o
}

// snapshot returns a policy in which the role agent may use the lanes day and night, and the role guest only day.
func snapshot(t *testing.T, comment string) *policy.Snapshot {
	t.Helper()
	set, err := policy.Parse(policy.Documents{
		Roles: []byte("# " + comment + "\nroles: [{role_id: agent, allowed_lanes: [day, night]}, " +
			"{role_id: guest, allowed_lanes: [day]}]\n"),
		Lanes:        []byte("lanes: [{lane_id: day, allowed_tools: []}, {lane_id: night, allowed_tools: []}]\n"),
		ToolRegistry: []byte("tools: []\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := policy.Compile(set, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var (
	operator = runstore.Sender{Tenant: "acme", Actor: "operator://o", Token: &auth.Principal{
		Tenant: "acme", Actor: "operator://o", Role: auth.Operator,
	}}
	anybody = runstore.Sender{Tenant: "acme", Actor: "agent://a"} // without tokens
)

// issued is the time of issue of the tokens of agents.
var issued = time.Now().Truncate(time.Second)

// agent returns an agent with the scope run:start, or what edit makes of it.
func agent(edit func(*auth.Principal)) runstore.Sender {
	p := &auth.Principal{
		Tenant: "acme", Actor: "agent://a", Role: auth.Agent, Scopes: []string{auth.ScopeRun}, Family: "family",
		Issued: issued, Expires: issued.Add(time.Minute), RenewUntil: issued.Add(time.Hour),
	}
	if edit != nil {
		edit(p)
	}
	return runstore.Sender{Tenant: p.Tenant, Actor: p.Actor, Token: p}
}

// starts starts a run.
func (o *office) starts(by runstore.Sender, q envelope.RunStartRequest) envelope.RunResponse {
	o.p.T.Helper()
	a, refusal := o.Start(o.p.T.Context(), by, q)
	if refusal != nil {
		o.p.T.Fatal(refusal)
	}
	return a
}

// named returns the events on record, and forgets them.
func (o *office) recorded() (names []audit.Event) {
	for _, r := range o.events {
		names = append(names, r.Event)
	}
	o.events = nil
	return names
}

// A run is started once, also by a repeated request, and its record and event say who started it and under which
// policy.
func TestStartOfRuns(t *testing.T) {
	o := serve(t)
	q := envelope.RunStartRequest{ID: "r1", Role: "agent", Lanes: []string{"day"}, Reason: "nightly"}
	for n := range 2 {
		a := o.starts(agent(nil), q)
		r := a.Run
		if a.Changed != (n == 0) || r.ID != "r1" || r.Tenant != "acme" || !slices.Equal(r.Actors, []string{"agent://a"}) ||
			r.State != "active" || r.Policies != o.inForce.Versions() || r.By != "acme/agent://a" || r.Start.IsZero() {
			t.Errorf("start %d: %+v", n, a)
		}
	}
	if len(o.events) != 1 {
		t.Fatalf("%d events", len(o.events))
	}
	if r := o.events[0]; r.Event != audit.RunStarted || r.RunID != "r1" || r.RoleID != "agent" || r.Tenant != "acme" ||
		r.Actor != "agent://a" || r.Policies != o.inForce.Versions() || r.Run.By != "acme/agent://a" ||
		r.Run.Reason != "nightly" || r.Run.State != "active" || !slices.Equal(r.Run.Lanes, []string{"day"}) {
		t.Errorf("%+v, %+v", r, r.Run)
	}
	if _, refusal := o.Start(t.Context(), operator, envelope.RunStartRequest{
		ID: "r1", Actors: []string{"agent://b"},
	}); refusal == nil || refusal.Code != envelope.CodeRunState {
		t.Errorf("another run with the id: %v", refusal)
	}
	o.refuses = audit.ErrRefused
	if _, refusal := o.Start(t.Context(), anybody, envelope.RunStartRequest{ID: "r2"}); refusal == nil ||
		refusal.Code != envelope.CodeAuditLag {
		t.Errorf("unrecorded: %v", refusal)
	}
	if _, _, err := o.p.Get(t.Context(), "acme", "r2"); !errors.Is(err, runstore.ErrNone) {
		t.Errorf("a run that is not on record was started: %v", err)
	}
	o.refuses, o.noInForce = nil, policy.ErrNone
	if _, refusal := o.Start(t.Context(), anybody, envelope.RunStartRequest{ID: "r2"}); refusal == nil ||
		refusal.Code != envelope.CodePolicyVersion {
		t.Errorf("without a policy: %v", refusal)
	}
	o.noInForce = policy.ErrStale
	if _, refusal := o.Start(t.Context(), anybody, envelope.RunStartRequest{ID: "r2"}); refusal == nil ||
		refusal.Code != envelope.CodeUnavailable {
		t.Errorf("without a known policy: %v", refusal)
	}
}

// An agent starts runs of its own with the rights of its token, and no other runs.
func TestRightsToStart(t *testing.T) {
	o := serve(t)
	with := func(edit func(*envelope.RunStartRequest)) envelope.RunStartRequest {
		q := envelope.RunStartRequest{}
		edit(&q)
		return q
	}
	for n, c := range []struct {
		by   runstore.Sender
		q    envelope.RunStartRequest
		code envelope.Code
	}{
		{agent(nil), envelope.RunStartRequest{}, ""},
		{agent(nil), with(func(q *envelope.RunStartRequest) { q.Actors = []string{"agent://a/b", "agent://a"} }), ""},
		{agent(nil), with(func(q *envelope.RunStartRequest) { q.Role, q.Lanes = "agent", []string{"night"} }), ""},
		{agent(func(p *auth.Principal) { p.Scopes = []string{auth.ScopeAll} }), envelope.RunStartRequest{}, ""},
		{agent(func(p *auth.Principal) { p.Scopes = []string{"crm:read"} }), envelope.RunStartRequest{},
			envelope.CodeScope},
		{agent(nil), with(func(q *envelope.RunStartRequest) { q.Tenant = "other" }), envelope.CodeScope},
		{agent(nil), with(func(q *envelope.RunStartRequest) { q.Actors = []string{"agent://a", "agent://ab"} }),
			envelope.CodeScope},
		{agent(nil), with(func(q *envelope.RunStartRequest) { q.Role = "guest" }), envelope.CodeScope},
		{agent(func(p *auth.Principal) { p.RoleIDs = []string{"agent", "guest"} }), envelope.RunStartRequest{},
			envelope.CodeScope},
		{agent(func(p *auth.Principal) { p.RoleIDs = []string{"guest"} }),
			with(func(q *envelope.RunStartRequest) { q.Lanes = []string{"night"} }), envelope.CodeMalformed},
		{agent(func(p *auth.Principal) { p.Lane = "day" }),
			with(func(q *envelope.RunStartRequest) { q.Lanes = []string{"night"} }), envelope.CodeScope},
		{agent(func(p *auth.Principal) { p.Run = "another" }), envelope.RunStartRequest{}, envelope.CodeScope},
		{operator, envelope.RunStartRequest{}, envelope.CodeMalformed},
		{operator, with(func(q *envelope.RunStartRequest) { q.Tenant, q.Actors = "other", []string{"agent://z"} }), ""},
		{operator, with(func(q *envelope.RunStartRequest) { q.Role, q.Actors = "nosuch", []string{"agent://z"} }),
			envelope.CodeMalformed},
		{operator, with(func(q *envelope.RunStartRequest) { q.Lanes, q.Actors = []string{"nosuch"}, []string{"agent://z"} }),
			envelope.CodeMalformed},
		{anybody, envelope.RunStartRequest{}, ""},
		{anybody, with(func(q *envelope.RunStartRequest) { q.ID = "implicit-1" }), envelope.CodeMalformed},
		{anybody, with(func(q *envelope.RunStartRequest) { q.ID = "a\nb" }), envelope.CodeMalformed},
		{anybody, with(func(q *envelope.RunStartRequest) { q.ID = "bad name" }), envelope.CodeMalformed},
		{anybody, with(func(q *envelope.RunStartRequest) { q.ID = "a\u00a0b" }), envelope.CodeMalformed},
		{anybody, with(func(q *envelope.RunStartRequest) { q.ID = "a\u202eb" }), envelope.CodeMalformed},
		{anybody, with(func(q *envelope.RunStartRequest) { q.ID = "größe/42" }), ""},
		{anybody, with(func(q *envelope.RunStartRequest) { q.Actors = slices.Repeat([]string{"a"}, 33) }),
			envelope.CodeMalformed},
		{anybody, with(func(q *envelope.RunStartRequest) { q.Lanes = slices.Repeat([]string{"day"}, 33) }),
			envelope.CodeMalformed},
		{anybody, with(func(q *envelope.RunStartRequest) { q.Reason = strings.Repeat("x", 1001) }),
			envelope.CodeMalformed},
	} {
		if c.q.ID == "" {
			c.q.ID = fmt.Sprint("run", n)
		}
		a, refusal := o.Start(t.Context(), c.by, c.q)
		if got := codeOf(refusal); got != c.code {
			t.Errorf("%d, %+v: %v, want %q", n, c.q, refusal, c.code)
		}
		if c.code == "" && c.by.Token != nil && c.by.Token.Role == auth.Agent && a.Run.Role != "agent" {
			t.Errorf("%d: the run of an agent is for the role %q", n, a.Run.Role)
		}
	}
	a := o.starts(agent(func(p *auth.Principal) { p.Lane = "day" }), envelope.RunStartRequest{ID: "bound"})
	if !slices.Equal(a.Run.Lanes, []string{"day"}) {
		t.Errorf("a token for one lane starts a run for %q", a.Run.Lanes)
	}
}

func codeOf(refusal *envelope.Error) envelope.Code {
	if refusal == nil {
		return ""
	}
	return refusal.Code
}

// An operator pauses, resumes and closes any run, and an agent closes its own. A closed run stays closed.
func TestChangesOfRuns(t *testing.T) {
	o := serve(t)
	o.starts(agent(nil), envelope.RunStartRequest{ID: "own"})
	o.starts(agent(func(p *auth.Principal) { p.Actor = "agent://a/b" }), envelope.RunStartRequest{ID: "below"})
	o.starts(operator, envelope.RunStartRequest{ID: "given", Actors: []string{"agent://a"}})
	implicit := run("implicit-1")
	implicit.Implicit = true
	o.p.create(implicit)
	o.recorded()
	for _, c := range []struct {
		by        runstore.Sender
		id, state string
		changed   bool
		code      envelope.Code
		event     audit.Event
	}{
		{operator, "own", "paused", true, "", audit.RunPaused},
		{operator, "own", "paused", false, "", ""},
		{operator, "own", "active", true, "", audit.RunResumed},
		{agent(nil), "own", "paused", false, envelope.CodeForbidden, ""},
		{agent(nil), "given", "closed", false, envelope.CodeRunUnknown, ""},
		{agent(nil), "nosuch", "closed", false, envelope.CodeRunUnknown, ""},
		{agent(nil), "implicit-1", "closed", false, envelope.CodeRunUnknown, ""},
		{agent(func(p *auth.Principal) { p.Scopes = nil }), "own", "closed", false, envelope.CodeScope, ""},
		{agent(func(p *auth.Principal) { p.Tenant = "other" }), "own", "closed", false, envelope.CodeRunUnknown, ""},
		{agent(func(p *auth.Principal) { p.Actor = "agent://a/b" }), "own", "closed", false, envelope.CodeRunUnknown, ""},
		{agent(nil), "own", "closed", true, "", audit.RunClosed},
		{agent(nil), "below", "closed", true, "", audit.RunClosed},
		{agent(nil), "own", "closed", false, "", ""},
		{operator, "own", "active", false, envelope.CodeRunState, ""},
		{operator, "implicit-1", "closed", true, "", audit.RunClosed},
		{operator, "given", "gone", false, envelope.CodeMalformed, ""},
		{anybody, "given", "paused", true, "", audit.RunPaused},
	} {
		a, refusal := o.Change(t.Context(), c.by, envelope.RunChangeRequest{ID: c.id, State: c.state})
		events := o.recorded()
		want := []audit.Event{}
		if c.event != "" {
			want = append(want, c.event)
		}
		if codeOf(refusal) != c.code || a.Changed != c.changed || !slices.Equal(events, want) {
			t.Errorf("%s, %s to %s: %+v, %v, events %v", c.by.Actor, c.id, c.state, a, refusal, events)
		}
		if refusal == nil && (a.Run.State != c.state || (c.state == "closed") == a.Run.End.IsZero()) {
			t.Errorf("%s to %s: %+v", c.id, c.state, a.Run)
		}
	}
	o.refuses = audit.ErrRefused
	if _, refusal := o.Change(t.Context(), operator, envelope.RunChangeRequest{ID: "given", State: "closed"}); codeOf(
		refusal) != envelope.CodeAuditLag {
		t.Errorf("unrecorded: %v", refusal)
	}
	if a, _ := o.Show(t.Context(), operator, envelope.RunRequest{ID: "given"}); a.Run.State != "paused" {
		t.Errorf("a change that is not on record was made: %+v", a.Run)
	}
}

// A run that a push has stopped is moved to the policy in force, with one event.
func TestRepin(t *testing.T) {
	o := serve(t)
	first := o.inForce
	o.starts(anybody, envelope.RunStartRequest{ID: "r1"})
	o.starts(anybody, envelope.RunStartRequest{ID: "r2"})
	closing := envelope.RunChangeRequest{ID: "r2", State: "closed"}
	if _, refusal := o.Change(t.Context(), operator, closing); refusal != nil {
		t.Fatal(refusal)
	}
	implicit := run("implicit-1")
	implicit.Implicit = true
	o.p.create(implicit)
	o.recorded()
	o.inForce = snapshot(t, "second")
	for n := range 2 {
		a, refusal := o.Repin(t.Context(), operator, envelope.RunRequest{ID: "r1", Reason: "pushed"})
		if refusal != nil || a.Changed != (n == 0) || a.Run.Policies != o.inForce.Versions() || len(o.events) != 1 {
			t.Fatalf("%+v, %v, %d events", a, refusal, len(o.events))
		}
	}
	if r := o.events[0]; r.Event != audit.RunRepinned || r.Policies != o.inForce.Versions() ||
		r.Run.Replaced != first.Versions() || r.Run.Reason != "pushed" {
		t.Errorf("%+v, %+v", r, r.Run)
	}
	for id, code := range map[string]envelope.Code{
		"r2": envelope.CodeRunState, "implicit-1": envelope.CodeRunState, "nosuch": envelope.CodeRunUnknown,
	} {
		if _, refusal := o.Repin(t.Context(), operator, envelope.RunRequest{ID: id}); codeOf(refusal) != code {
			t.Errorf("%s: %v, want %s", id, refusal, code)
		}
	}
	o.noInForce = policy.ErrNone
	if _, refusal := o.Repin(t.Context(), operator, envelope.RunRequest{ID: "r1"}); codeOf(
		refusal) != envelope.CodePolicyVersion {
		t.Errorf("without a policy: %v", refusal)
	}
}

// Runs are listed in pages, by tenant and state.
func TestList(t *testing.T) {
	o := serve(t)
	list := func(q envelope.RunListRequest) (ids []string) {
		t.Helper()
		for pages := 1; ; pages++ {
			a, refusal := o.List(t.Context(), q)
			if refusal != nil {
				t.Fatal(refusal)
			}
			for _, r := range a.Runs {
				ids = append(ids, r.ID)
			}
			if q.After = a.Next; a.Next == 0 {
				if len(ids) > 500 && pages == 1 {
					t.Errorf("%d runs on one page", len(ids))
				}
				return ids
			}
		}
	}
	if ids := list(envelope.RunListRequest{}); len(ids) > 0 {
		t.Errorf("runs of an empty bucket: %q", ids)
	}
	for n := range 510 {
		r := run(fmt.Sprint("r", n))
		r.Implicit = n%2 == 1
		if n%3 == 0 {
			r.State = "closed"
		}
		if n == 4 {
			r.Tenant = "other"
		}
		o.p.create(r)
	}
	for want, q := range map[int]envelope.RunListRequest{
		510: {Implicit: true}, 255: {}, 254: {Tenant: "acme"}, 1: {Tenant: "other"}, 85: {State: "closed"},
	} {
		if ids := list(q); len(ids) != want {
			t.Errorf("%+v: %d runs, want %d", q, len(ids), want)
		}
	}
}

// A change is carried out only while the run is as its sender has seen it, and once. One that finds nothing to do
// moves it on, too.
func TestLateChanges(t *testing.T) {
	o := serve(t)
	o.starts(operator, envelope.RunStartRequest{ID: "r1", Actors: []string{"agent://a"}})
	become := func(id string, state policy.RunState, expect *uint64) (envelope.RunResponse, *envelope.Error) {
		ctx := call.NewContext(t.Context(), call.Credential{Request: id})
		return o.Change(ctx, operator, envelope.RunChangeRequest{ID: "r1", State: string(state), Expect: expect})
	}
	seen, refusal := o.Show(t.Context(), operator, envelope.RunRequest{ID: "r1"})
	if refusal != nil {
		t.Fatal(refusal)
	}
	if a, refusal := become("again", policy.RunActive, seen.Revision); refusal != nil || a.Changed {
		t.Errorf("nothing to do: %+v, %v", a, refusal)
	}
	now, _ := o.Show(t.Context(), operator, envelope.RunRequest{ID: "r1"})
	names := fmt.Sprintf("revision %d was expected, and it has revision %d", *seen.Revision, *now.Revision)
	if _, refusal := become("late", policy.RunPaused, seen.Revision); refusal == nil ||
		refusal.Code != envelope.CodeChanged || !strings.Contains(refusal.Message, names) {
		t.Errorf("a late pause: %v", refusal)
	}
	seen, _ = o.Show(t.Context(), operator, envelope.RunRequest{ID: "r1"})
	for range 2 { // the second is a copy
		a, refusal := become("once", policy.RunPaused, seen.Revision)
		if refusal != nil || !a.Changed || a.Run.State != string(policy.RunPaused) {
			t.Errorf("%+v, %v", a, refusal)
		}
	}
	if got, want := o.recorded(), []audit.Event{audit.RunStarted, audit.RunPaused}; !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}
