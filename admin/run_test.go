package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// withRuns returns a policy in which the role agent may call greet in the lane main, in runs that calls name.
func withRuns(comment string) admin.Policy {
	p := allowing("main")
	p.Lanes = []byte("# " + comment + "\nlanes: [{lane_id: main, allowed_tools: [greet]}, " +
		"{lane_id: spare, allowed_tools: [greet]}]\n")
	return p
}

// guest is an agent with a token.
type guest struct {
	*toolbus.Client
	admin *admin.Client
}

func (s *stage) guest(t *testing.T, name string, scopes ...string) guest {
	t.Helper()
	file, err := s.credentials(name, auth.Principal{Actor: "agent://" + name, Role: auth.Agent, Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.client(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return guest{c, s.admin(t, file)}
}

// greets calls greet in a run, and returns the code of the error.
func (g guest) greets(t *testing.T, name, run string) envelope.Code {
	_, err := toolbus.Invoke[string](t.Context(), g.Client, toolbus.Call{
		Tool: "greet", Retry: once(), Context: toolbus.RequestContext{LaneID: "main", RunID: run},
	}, name)
	return toolbus.CodeOf(err)
}

// A call belongs to a run of its actor, which is active and pinned to the policy in force. An agent starts and closes
// runs of its own, and an operator every run. Each change is on record, and so are the segments of the run.
func TestRuns(t *testing.T) {
	s := onStageWith(t, toolbus.DispatcherOptions{})
	operator, bob, eve := s.admin(t, s.operator), s.guest(t, "bob", auth.ScopeRun), s.guest(t, "eve", auth.ScopeRun)
	if _, err := bob.admin.StartRun(t.Context(), envelope.RunStartRequest{}); toolbus.CodeOf(err) !=
		envelope.CodePolicyVersion {
		t.Errorf("a run without a policy: %v", err)
	}
	first, err := operator.PushPolicy(t.Context(), withRuns("first"), 0, "")
	if err != nil {
		t.Fatal(err)
	}
	started, err := bob.admin.StartRun(t.Context(), envelope.RunStartRequest{Lanes: []string{"main"}})
	run := started.Run
	if err != nil || run.Role != "agent" || run.By != "default/agent://bob" || len(run.ID) < 16 {
		t.Fatalf("%+v, %v", started, err)
	}
	wants := func(when string, g guest, id string, code envelope.Code) {
		t.Helper()
		if got := g.greets(t, "Ada", id); got != code {
			t.Errorf("%s: %q, want %q", when, got, code)
		}
	}
	eventually(t, "the policy", func() bool { return bob.greets(t, "Ada", run.ID) == "" })
	if got := bob.greets(t, "nobody", run.ID); got == "" {
		t.Error("nobody was greeted")
	}
	wants("no run", bob, "", envelope.CodeRunUnknown)
	wants("no such run", bob, "nosuch", envelope.CodeRunUnknown)
	wants("a run of another actor", eve, run.ID, envelope.CodeRunUnknown)
	change := func(c *admin.Client, state string, code envelope.Code) {
		t.Helper()
		_, err := c.ChangeRun(t.Context(), envelope.RunChangeRequest{ID: run.ID, State: state, Reason: "see INC-7"})
		if toolbus.CodeOf(err) != code {
			t.Errorf("to %s: %v, want %q", state, err, code)
		}
	}
	change(operator, "paused", "")
	wants("paused", bob, run.ID, envelope.CodeRunState)
	change(bob.admin, "active", envelope.CodeForbidden)
	change(operator, "active", "")
	wants("resumed", bob, run.ID, "")
	if _, err := operator.PushPolicy(t.Context(), withRuns("second"), first, ""); err != nil {
		t.Fatal(err)
	}
	pushed := time.Now()
	for bob.greets(t, "Ada", run.ID) != envelope.CodePolicyVersion {
		if time.Since(pushed) > 2*time.Second {
			t.Fatal("a run of the former policy is not stopped")
		}
	}
	if _, err := bob.admin.RepinRun(t.Context(), envelope.RunRequest{ID: run.ID}); toolbus.CodeOf(err) !=
		envelope.CodeForbidden {
		t.Errorf("an agent moves its run: %v", err)
	}
	if _, err := operator.RepinRun(t.Context(), envelope.RunRequest{ID: run.ID}); err != nil {
		t.Fatal(err)
	}
	wants("moved", bob, run.ID, "")
	change(eve.admin, "closed", envelope.CodeRunUnknown)
	change(bob.admin, "closed", "")
	wants("closed", bob, run.ID, envelope.CodeRunState)
	s.wantOnRecord(t, operator, run.ID)
}

// wantOnRecord checks the list of runs, the segments and the events of the run of TestRuns.
func (s *stage) wantOnRecord(t *testing.T, operator *admin.Client, id string) {
	t.Helper()
	for state, want := range map[string]int{"": 1, "closed": 1, "active": 0} {
		n := 0
		for r, err := range operator.Runs(t.Context(), envelope.RunListRequest{State: state}) {
			if n++; err != nil || r.ID != id || r.State != "closed" || r.End.IsZero() {
				t.Errorf("%+v, %v", r, err)
			}
		}
		if n != want {
			t.Errorf("%d runs in state %q, want %d", n, state, want)
		}
	}
	eventually(t, "the segments", func() bool {
		run, segments, err := operator.Run(t.Context(), envelope.RunRequest{ID: id})
		if err != nil || run.State != "closed" {
			t.Fatalf("%+v, %v", run, err)
		}
		states := map[string]int{}
		for _, one := range segments {
			states[one.State]++
			if one.State == "failed" && (one.Code == "" || one.End.IsZero()) || one.Tool != "greet" || one.Start.IsZero() ||
				one.Actor != "agent://bob" {
				t.Errorf("%+v", one)
			}
		}
		return states["failed"] == 1 && states["succeeded"] >= 3 && states["denied"] >= 3 && states["running"] == 0
	})
	var events []string
	for r, err := range operator.AuditRecords(t.Context(), admin.AuditFilter{Run: id}) {
		if err != nil {
			t.Fatal(err)
		}
		if name, changed := strings.CutPrefix(r.Event, "run_"); changed && r.Act == "done" {
			events = append(events, name)
		}
	}
	if got := strings.Join(events, " "); got != "started paused resumed repinned closed" {
		t.Errorf("events: %s", got)
	}
}

// A call that names no run gets one in a lane with implicit runs: one for each token and policy.
func TestImplicitRuns(t *testing.T) {
	s := onStageWith(t, toolbus.DispatcherOptions{})
	operator, bob := s.admin(t, s.operator), s.guest(t, "bob")
	if _, err := operator.PushPolicy(t.Context(), allowing("main"), 0, ""); err != nil {
		t.Fatal(err)
	}
	implicit := func() (all []envelope.Run) {
		t.Helper()
		for r, err := range operator.Runs(t.Context(), envelope.RunListRequest{Implicit: true}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		return all
	}
	eventually(t, "the policy", func() bool { return bob.greets(t, "Ada", "") == "" && len(implicit()) > 0 })
	for range 20 {
		if code := bob.greets(t, "Ada", ""); code != "" {
			t.Fatal(code)
		}
	}
	all := implicit()
	if len(all) != 1 || !all[0].Implicit || len(all[0].Actors) != 1 || all[0].Actors[0] != "agent://bob" {
		t.Fatalf("%+v", all)
	}
	if code := bob.greets(t, "Ada", all[0].ID); code != "" {
		t.Errorf("named, it is refused with %s", code)
	}
	if code := s.guest(t, "eve").greets(t, "Ada", all[0].ID); code != envelope.CodeRunUnknown {
		t.Errorf("another actor gets %q", code)
	}
	if _, err := bob.admin.StartRun(t.Context(), envelope.RunStartRequest{}); toolbus.CodeOf(err) != envelope.CodeScope {
		t.Errorf("without the scope an agent starts a run: %v", err)
	}
	q := envelope.RunChangeRequest{ID: all[0].ID, State: "closed"}
	if _, err := operator.ChangeRun(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if code := bob.greets(t, "Ada", ""); code != envelope.CodeRunState {
		t.Errorf("a closed implicit run: %q", code)
	}
	eventually(t, "the record of the calls", func() bool {
		n := 0
		for _, err := range operator.AuditRecords(t.Context(), admin.AuditFilter{Run: q.ID, Event: "tool_executed"}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n >= 21
	})
}
