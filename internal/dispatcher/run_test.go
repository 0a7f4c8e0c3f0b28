package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// runs are the runs of the tenant t.
type runs struct {
	mu      sync.Mutex
	stored  map[string]*policy.Run
	known   map[string]*policy.Run // older versions of them, of which the dispatcher knows
	r1      *policy.Run            // of tests of stages
	err     error
	started []envelope.Run
	inFind  func() // while a run is looked up; nil: nothing happens
}

func (r *runs) Known(tenant, id string) (*policy.Run, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[id]
	return known, ok && tenant == "t" && r.err == nil
}

func (r *runs) Find(ctx context.Context, tenant, id string, after time.Time) (*policy.Run, error) {
	if r.inFind != nil {
		r.inFind()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[id]
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case r.err != nil || tenant != "t":
		return nil, r.err
	case ok && after.IsZero():
		return known, nil
	}
	return r.stored[id], nil
}

func (r *runs) Start(_ context.Context, run envelope.Run) (*policy.Run, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started = append(r.started, run)
	r.stored[run.ID] = &policy.Run{
		Tenant: run.Tenant, Actors: run.Actors, State: policy.RunState(run.State), Pinned: run.Policies,
	}
	return r.stored[run.ID], nil
}

// inRun edits a request to be in a run, of a role and in a lane.
func inRun(id, role, lane string) []string {
	return []string{`"env":"dev"`, fmt.Sprintf(`"env":"dev","run_id":%q,"role_id":%q,"lane_id":%q`, id, role, lane)}
}

// A call that names no run belongs to an implicit one: of the family of its token, or of its actor, and of the policy.
// The log and the record have its id.
func TestImplicitRun(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		first := rules{lanes: "l, m", tools: "echo"}.in(w)
		w.d.Policy = first
		w.ask(1, ofRole("agent", "l")...)
		v := first.snapshot.Versions()
		want := policy.ImplicitRunID("t", "", "agent", v)
		if len(w.runs.started) != 1 {
			t.Fatalf("%d runs started", len(w.runs.started))
		}
		r := w.runs.started[0]
		if r.ID != want || r.Tenant != "t" || len(r.Actors) != 1 || r.Actors[0] != "agent" || !r.Implicit ||
			r.State != "active" || r.Policies != v || r.By != "t/agent" || r.Start.IsZero() {
			t.Errorf("started: %+v", r)
		}
		if log := w.state().Last().Owner.Run; log != want {
			t.Errorf("the log has run %q, want %q", log, want)
		}
		w.decide("")
		w.ask(2, ofRole("agent", "m")...)
		if len(w.runs.started) != 1 {
			t.Error("a second call has started another run")
		}
		w.d.Policy = rules{lanes: "l", tools: "echo"}.in(w)
		w.ask(3, ofRole("agent", "l")...)
		if len(w.runs.started) != 2 || w.runs.started[1].ID == want {
			t.Errorf("under another policy: %+v", w.runs.started)
		}
		w.runs.stored[w.runs.started[1].ID].State = policy.RunClosed
		w.ask(4, ofRole("agent", "l")...)
		if got := w.refused[len(w.refused)-1]; got.Error.Code != envelope.CodeRunState ||
			got.Req.Context.RunID != w.runs.started[1].ID {
			t.Errorf("in a closed run: %s in run %q", got.Error.Code, got.Req.Context.RunID)
		}
	})
}

// With tokens, the implicit run is that of a family, which renewal keeps.
func TestImplicitRunOfToken(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		set := rules{lanes: "l", tools: "echo"}.in(w)
		w.d.Policy = set
		s := guarded(w)
		for n := range 4 {
			p := someAgent()
			p.ID, p.Family = auth.NewID(), []string{"first", "second"}[n/2]
			in := w.request(n, append(ofRole("agent", "l"), "0123456789abcdef", fmt.Sprintf("key-%016d", n))...)
			in.Token, in.Reply = mint(w, s, p), p.Answers()+"word"
			w.d.Handle(t.Context(), in)
			synctest.Wait()
			want := policy.ImplicitRunID("t", p.Family, "", set.snapshot.Versions())
			if got := w.state().Last().Owner.Run; got != want {
				t.Errorf("call %d is of run %q, want %q", n, got, want)
			}
		}
		if len(w.runs.started) != 2 {
			t.Errorf("%d runs for two families", len(w.runs.started))
		}
	})
}

// A token and all that are narrowed from it have one implicit run, whichever of them calls first: no narrowing leaves
// a run that was closed.
func TestImplicitRunOfNarrowedToken(t *testing.T) {
	for first := range 2 {
		bubble(t, call.Pure, func(t *testing.T, w *world) {
			w.d.Policy = rules{lanes: "l", tools: "echo"}.in(w)
			s, p := guarded(w), someAgent()
			child, err := p.Narrow(auth.Narrowing{Actor: "agent/sub"}, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			ask := func(n int, p auth.Principal) envelope.Code {
				in := w.request(n, append(ofRole("agent", "l"), `"actor_id":"agent"`, fmt.Sprintf(`"actor_id":%q`, p.Actor))...)
				in.From, in.Subject = from(p.Actor), "tb.call.t."+subjects.Token(p.Actor)+".echo"
				in.Token, in.Reply = mint(w, s, p), p.Answers()+fmt.Sprint("inbox", n)
				w.d.Handle(t.Context(), in)
				synctest.Wait()
				if all := w.outcomes[in.Reply]; len(all) > 0 {
					return all[0].Error.Code
				}
				return ""
			}
			all := []auth.Principal{p, child}
			for n := range 2 {
				if code := ask(n, all[(first+n)%2]); code != "" {
					t.Errorf("call %d: %s", n, code)
				}
			}
			if len(w.runs.started) != 1 {
				t.Fatalf("%d runs were started", len(w.runs.started))
			}
			w.runs.stored[w.runs.started[0].ID].State = policy.RunClosed
			for n, p := range all {
				if code := ask(n+2, p); code != envelope.CodeRunState {
					t.Errorf("in the closed run, %s got %q", p.Actor, code)
				}
			}
		})
	}
}

// No run is started for a call that its lane denies.
func TestNoRunForADeniedLane(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.d.Policy = rules{lanes: "m", tools: "echo"}.in(w)
		for n, lane := range []string{"l", "nosuch"} {
			w.ask(n, ofRole("agent", lane)...)
			if r := w.refused[n]; r.Error.Code != envelope.CodeLane || r.Step != 4 || r.Req.Context.RunID != "" {
				t.Errorf("lane %s: %s at step %d, run %q", lane, r.Error.Code, r.Step, r.Req.Context.RunID)
			}
		}
		if len(w.runs.started) > 0 {
			t.Errorf("started: %+v", w.runs.started)
		}
	})
}

// Nothing is denied by an old version of a run: a run that was resumed is active at once.
func TestResumedRun(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		set := rules{lanes: "l", tools: "echo", named: true}.in(w)
		w.d.Policy = set
		active := policy.Run{
			Tenant: "t", Actors: []string{"agent"}, State: policy.RunActive, Pinned: set.snapshot.Versions(),
		}
		paused := active
		paused.State = policy.RunPaused
		w.runs.stored, w.runs.known = map[string]*policy.Run{"r1": &active}, map[string]*policy.Run{"r1": &paused}
		if w.ask(1, inRun("r1", "agent", "l")...); w.acceptedBy(1) != 1 {
			t.Errorf("refused with %v", w.refusals())
		}
	})
}

// What is said of a run may change, so it is not final. A call that was admitted keeps its outcome when its run is
// closed, and another request with its key is decided by the state of today.
func TestClosedRunKeepsOutcomes(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		set := rules{lanes: "l", tools: "echo", named: true}.in(w)
		w.d.Policy = set
		r := &policy.Run{Tenant: "t", Actors: []string{"agent"}, State: policy.RunActive, Pinned: set.snapshot.Versions()}
		w.runs.stored["r1"] = r
		w.ask(1, inRun("r1", "agent", "l")...)
		r.State = policy.RunClosed
		w.decide("") // admitted before: it runs
		w.ask(1, inRun("r1", "agent", "l")...)
		if o := w.outcome(1); o.Status != envelope.Success {
			t.Errorf("a copy gets %v", o.Error)
		}
		for n, c := range []struct {
			edit func()
			code envelope.Code
		}{
			{func() {}, envelope.CodeRunState},
			{func() { r.State, r.Pinned.Roles = policy.RunActive, "other" }, envelope.CodePolicyVersion},
			{func() { w.runs.stored = nil }, envelope.CodeRunUnknown},
			{func() { w.runs.err = errors.New("silent") }, envelope.CodeUnavailable},
			{func() { w.d.Runs = nil }, envelope.CodeRunUnknown},
		} {
			c.edit()
			w.ask(n+2, inRun("r1", "agent", "l")...)
			if o := w.outcome(n + 2); o.Error == nil || o.Error.Code != c.code || o.Provenance.Final {
				t.Errorf("another request: %v, final %t, want %s", o.Error, o.Provenance.Final, c.code)
			}
		}
	})
}
