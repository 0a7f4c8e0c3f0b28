package dispatcher_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/admission"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// askAs makes the n-th call, of an actor, under a key of its own.
func (w *world) askAs(n int, actor string) {
	in := w.request(n, `"actor_id":"agent"`, fmt.Sprintf(`"actor_id":%q`, actor), "89abcdef", fmt.Sprintf("%08d", n))
	in.Subject, in.From = "tb.call.t."+actor+".echo", call.Sender{Tenant: "t", Actor: actor}
	w.d.Handle(w.t.Context(), in)
}

// An actor, and a tenant, has no more calls open than it may. What is refused may be asked again when others have
// ended; repeats of open calls are not refused. Whichever dispatcher has admitted them, they count.
func TestOpenCallsAreBounded(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.perActor, w.perTenant = 3, 5
		w.stop()
		w.run("d2")
		opened := func(n int, actor string) {
			t.Helper()
			if w.askAs(n, actor); w.acceptedBy(n) == 0 {
				t.Errorf("call %d of %s was not accepted", n, actor)
			}
		}
		refused := func(n int, actor string) {
			t.Helper()
			w.askAs(n, actor)
			r := w.outcome(n)
			if r.Error.Code != envelope.CodeOpen || r.Provenance.Final || r.Error.Details.Effect != envelope.EffectNone ||
				r.Error.Details.RetryAfterMS == 0 || r.Error.Fix == "" {
				t.Errorf("call %d of %s: %+v", n, actor, r.Error)
			}
		}
		for n := range 3 {
			opened(n, "a")
		}
		w.stop()
		w.run("d3") // knows of them from the log alone
		for _, e := range w.log.Entries() {
			w.d.Observe(t.Context(), e.Kind, e.Attempt, e.State)
		}
		w.askAs(0, "a")
		refused(3, "a")
		opened(4, "b")
		opened(5, "b")
		refused(6, "b")
		refused(7, "c")
		pass(11 * time.Second) // they have all timed out
		if w.d.Watching() != 0 {
			t.Fatalf("%d are open", w.d.Watching())
		}
		for n := range 3 {
			opened(10+n, "a")
		}
		refused(13, "a")
	})
}

// A request that was not even read is refused as one that may be asked again, of whose effect nothing is known.
func TestCrowded(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		in := w.request(1)
		in.Body = nil
		w.d.Answers.RejectOverload(t.Context(), in, &flow.QueueFullError{Of: "actor", Wait: 1500 * time.Millisecond})
		r := w.outcome(1)
		if r.Error.Code != envelope.CodeQueue || r.Provenance.Final || r.Error.Details.RetryAfterMS != 1500 ||
			r.Error.Details.Effect != envelope.EffectUnknown || r.CallID != envelope.NoCallID || r.Check() != nil {
			t.Errorf("got %+v, %+v", r, r.Error)
		}
		if len(w.refusals()) != 1 {
			t.Error("it is not on record")
		}
	})
}

// The bound holds for calls that come at the same moment, too, and what is refused is counted no longer.
func TestOpenCallsAtOnce(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.perActor, w.perTenant = 3, 5
		w.step = func(_ context.Context, s call.TraceEvent) {
			if s.At == call.TraceBeforeAdmit {
				<-time.After(time.Second) // the log takes its time
			}
		}
		w.stop()
		w.run("d2")
		for round := range 2 {
			var g sync.WaitGroup
			for n := range 20 {
				g.Go(func() { w.askAs(20*round+n, "a") })
			}
			g.Wait()
			accepted := 0
			for n := range 20 {
				accepted += min(1, w.acceptedBy(20*round+n))
			}
			if accepted != 3 {
				t.Errorf("%d were accepted, want 3", accepted)
			}
			pass(11 * time.Second) // they have all timed out
		}
	})
}

// What an actor asks for beyond what goes ahead goes behind, also when it asks at once, and where executors pull that;
// when others of it have ended its calls go ahead again. Other actors do not notice.
func TestManyOpenCallsGoBehind(t *testing.T) {
	staffed(t, call.Pure, func(t *testing.T, w *world, p *pool) {
		goes := func(n int, actor string) (behind bool) {
			w.askAs(n, actor)
			return w.goneBehind(n)
		}
		for n := range admission.DefaultOverflowAfter + 1 {
			if goes(n, "old") {
				t.Errorf("call %d goes behind, where no executor pulls that", n)
			}
		}
		p.set(func(p *pool) { p.steps = 2 })
		for n := range 2 * admission.DefaultOverflowAfter {
			if want := n >= admission.DefaultOverflowAfter; goes(100+n, "a") != want {
				t.Errorf("call %d of an actor goes behind: %t", n, !want)
			}
		}
		if goes(200, "b") {
			t.Error("the first call of another actor goes behind")
		}
		pass(11 * time.Second) // they have all timed out
		var g sync.WaitGroup
		for n := range 20 {
			g.Go(func() { w.askAs(300+n, "a") })
		}
		g.Wait()
		ahead := 0
		for n := range 20 {
			if !w.goneBehind(300 + n) {
				ahead++
			}
		}
		if ahead != admission.DefaultOverflowAfter {
			t.Errorf("%d of 20 at once go ahead, want %d", ahead, admission.DefaultOverflowAfter)
		}
	})
}

// Where executors pull all steps, the step of a call follows from what its family and its tenant have open.
func TestStepsOfOpenCalls(t *testing.T) {
	staffed(t, call.Pure, func(t *testing.T, w *world, p *pool) {
		p.set(func(p *pool) { p.steps = subjects.Steps })
		const few = admission.DefaultOverflowAfter
		for n := range 5 * few {
			w.askAs(n, fmt.Sprint("agent://a/", n%3))
			want := 3
			switch {
			case n < few:
				want = 0
			case n < 4*few:
				want = 2
			}
			if got := w.stepOf(n); got != want {
				t.Errorf("call %d of a family is of step %d, want %d", n, got, want)
			}
		}
		for n := range few + few/2 {
			w.askAs(100+n, "agent://b")
			if got, want := w.stepOf(100+n), 1+n/few; got != want {
				t.Errorf("call %d of another family is of step %d, want %d", n, got, want)
			}
		}
	})
}

// goneBehind reports whether call n goes behind.
func (w *world) goneBehind(n int) bool {
	w.t.Helper()
	return w.stepOf(n) > 0
}

// stepOf returns the step of call n.
func (w *world) stepOf(n int) int {
	w.t.Helper()
	for _, e := range w.log.Entries() {
		if a := e.State.Last(); e.Kind == call.Requested && a.Owner.CallID == uuid(n) {
			return a.Step
		}
	}
	w.t.Fatalf("call %d was not admitted", n)
	return 0
}

// Who may list which open calls: an agent its own, as far as its token covers them, an operator those of a tenant. They
// come in pages, each call once.
func TestListOpenCalls(t *testing.T) {
	bubble(t, call.SideEffectful, func(t *testing.T, w *world) {
		w.ask(0)
		w.claim()
		for n := range 2 * 40 {
			w.askAs(n+1, []string{"a", "b"}[n%2])
		}
		pass(time.Millisecond)
		as := func(role auth.Role, tenant, actor string) *auth.Principal {
			return &auth.Principal{Role: role, Tenant: tenant, Actor: actor, Scopes: []string{auth.ScopeAll}}
		}
		bound := as(auth.Agent, "t", "agent")
		bound.Run = "r1"
		for name, c := range map[string]struct {
			by            *auth.Principal
			actor, tenant string
			calls, pages  int
			no            envelope.Code
		}{
			"its own":                {by: as(auth.Agent, "t", "a"), calls: 40, pages: 2},
			"one that runs":          {by: as(auth.Agent, "t", "agent"), calls: 1, pages: 1},
			"of another run":         {by: bound, pages: 1},
			"none":                   {by: as(auth.Agent, "t", "c"), pages: 1},
			"in another tenant":      {by: as(auth.Agent, "u", "a"), pages: 1},
			"all, by an agent":       {by: as(auth.Agent, "t", "a"), tenant: "t", no: envelope.CodeForbidden},
			"an operator":            {by: as(auth.Operator, "t", "o"), calls: 81, pages: 3},
			"an operator of another": {by: as(auth.Operator, "u", "o"), tenant: "t", calls: 81, pages: 3},
			"another tenant":         {by: as(auth.Operator, "t", "o"), tenant: "u", pages: 1},
			"without tokens":         {actor: "b", calls: 40, pages: 2},
			"all, without tokens":    {actor: "b", tenant: "t", calls: 81, pages: 3},
		} {
			ctx, seen, running, pages := auth.NewContext(t.Context(), c.by), map[string]bool{}, 0, 0
			q := envelope.OpenCallsRequest{Tenant: c.tenant}
			for more := true; more; pages++ {
				a, refusal := w.d.OpenCalls(ctx, from(c.actor), q)
				if c.no != "" {
					if refusal == nil || refusal.Code != c.no {
						t.Errorf("%s: %v", name, refusal)
					}
					break
				}
				if refusal != nil {
					t.Fatal(name, refusal)
				}
				for _, open := range a.Calls {
					if seen[open.Ref] = true; open.State == envelope.OpenRunning {
						running++
					}
					if open.Tool != "echo" || open.Tenant != "t" || !open.Deadline.After(open.Since) {
						t.Errorf("%s: %+v", name, open)
					}
				}
				q.After, more = a.Next, a.More
			}
			if len(seen) != c.calls || pages != c.pages || running > 0 != (c.calls%2 == 1) {
				t.Errorf("%s: %d calls on %d pages, %d are running", name, len(seen), pages, running)
			}
		}
	})
}
