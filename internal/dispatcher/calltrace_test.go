package dispatcher_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/calltest"
)

// stored reads the events of the log without their bodies.
type stored struct{ *calltest.Log }

func (l stored) Head(ctx context.Context, tool, id string) (call.Entry, error) {
	return l.Read(ctx, tool, id)
}

func (l stored) StoredAt(context.Context, call.State, uint64) (time.Time, error) {
	return time.Time{}, nil
}

func (l stored) Events(context.Context, string, string, uint64) ([]call.Entry, error) {
	return l.Entries(), nil
}

// A trace has each attempt with its request, joins, claims, run and outcome, also when the events have expired. An
// actor that only joined does not learn who sent the request, and an operator does.
func TestTraced(t *testing.T) {
	bubble(t, call.Idempotent, func(t *testing.T, w *world) {
		w.d.Heads, w.d.Lease = stored{w.log}, time.Second
		trace := func(ctx context.Context, actor string, q envelope.CallRef) (
			kinds []envelope.TraceKind, _ []envelope.TraceEvent) {
			t.Helper()
			r, _, refusal := w.d.Traced(ctx, from(actor), q)
			if refusal != nil || r.Ref != w.state().Ref() {
				t.Fatalf("%+v, %v", r, refusal)
			}
			for _, e := range r.Events {
				kinds = append(kinds, e.Kind)
			}
			return kinds, r.Events
		}
		const requested, joined, claimed = envelope.TraceRequested, envelope.TraceJoined, envelope.TraceClaimed
		const ran, ended = envelope.TraceRun, envelope.TraceOutcome
		w.ask(1)
		pass(10 * time.Millisecond)
		w.ask(2)
		pass(200 * time.Millisecond)
		w.claim()
		q := envelope.CallRef{Ref: w.state().Ref()}
		kinds, events := trace(t.Context(), "agent", q)
		if !slices.Equal(kinds, []envelope.TraceKind{requested, joined, claimed, ran}) || !events[3].Running ||
			events[1].Joined != 1 || events[2].By != "default/e1" || events[2].Claim != 1 || events[0].Actor != "agent" {
			t.Errorf("open: %v: %+v", kinds, events)
		}
		w.decide(envelope.CodeUpstream)
		w.ask(3)
		w.decide("")
		all := []envelope.TraceKind{requested, joined, claimed, ran, ended, requested, ended}
		kinds, events = trace(t.Context(), "agent", q)
		if last := events[len(events)-1]; !slices.Equal(kinds, all) || events[4].Code != envelope.CodeUpstream ||
			last.Attempt != 2 || last.Status != envelope.Success || last.DecidedBy != "executor" {
			t.Errorf("ended: %v: %+v", kinds, events)
		}
		if kinds, _ = trace(t.Context(), "agent", w.query(3)); len(kinds) != 2 {
			t.Errorf("one attempt: %v", kinds)
		}
		if _, events = trace(t.Context(), "other", w.query(1)); events[0].Actor != "" || events[0].TraceID != "" {
			t.Errorf("to another actor: %+v", events[0])
		}
		operator := auth.NewContext(t.Context(), &auth.Principal{Tenant: "t", Actor: "operator", Role: auth.Operator})
		if _, events = trace(operator, "operator", q); events[0].Actor != "agent" {
			t.Errorf("to an operator: %+v", events[0])
		}
		if _, _, refusal := w.d.Traced(t.Context(), from("other"), q); refusal == nil ||
			refusal.Code != envelope.CodeNotFound {
			t.Errorf("to a stranger: %v", refusal)
		}
		w.d.Heads = nil
		if kinds, _ = trace(t.Context(), "agent", q); !slices.Equal(kinds, slices.Delete(all, 1, 2)) {
			t.Errorf("by the state alone: %v", kinds)
		}
	})
}

// A run whose lookup was asked is that of the executor that claimed it, which was lost. The executor that asked has a
// row of its own, with the answer.
func TestTracedLookup(t *testing.T) {
	for answer, kind := range map[call.LookupAnswer]envelope.TraceKind{
		"": envelope.TraceLookup, call.LookupAbsent: envelope.TraceAsked, call.LookupFailed: envelope.TraceAsked,
		call.LookupLocked: "",
	} {
		bubble(t, call.SideEffectful, func(t *testing.T, w *world) {
			w.d.Heads = stored{w.log}
			w.manifest.Capability.Lookup = true
			w.ask(1)
			w.claim()
			pass(2 * time.Second)
			end := call.Completion{Cause: call.Confirmed, By: call.ByExecutor, Nonce: "e2.1", Now: call.At(time.Now()),
				Fence: w.state().Last().Claim.Fence}
			if answer != "" {
				end.Cause, end.Answer = call.ClaimLost, answer
			}
			w.endsAs(end)
			r, _, refusal := w.d.Traced(t.Context(), from("agent"), envelope.CallRef{Ref: w.state().Ref()})
			if refusal != nil || len(r.Events) < 4 {
				t.Fatalf("%+v, %v", r.Events, refusal)
			}
			run, lookup, ended := r.Events[2], r.Events[3], r.Events[len(r.Events)-1]
			if run.Kind != envelope.TraceRun || !run.Lost || run.By != "default/e1" || run.DurationMS != 2000 {
				t.Errorf("%s: %+v", answer, run)
			}
			if kind == "" {
				kind, answer = envelope.TraceOutcome, ""
			}
			if lookup.Kind != kind || !strings.HasSuffix(lookup.By, "e2") || !lookup.At.Equal(ended.At) ||
				lookup.Answer != string(answer) {
				t.Errorf("%s: %+v", answer, lookup)
			}
		})
	}
}

// No dispatcher served at the deadline: nothing is known of the run after it, which is lost, and why does not blame the
// tool.
func TestTracedLateDecision(t *testing.T) {
	for _, class := range []call.EffectClass{call.Idempotent, call.SideEffectful} {
		bubble(t, class, func(t *testing.T, w *world) {
			w.d.Heads = stored{w.log}
			w.ask(1)
			pass(time.Second)
			w.claim()
			w.stop()
			pass(29 * time.Second)
			w.endsAs(call.Completion{Cause: call.TimedOut, By: call.ByDeadline, Nonce: "d2.1", Now: call.At(time.Now())})
			r, _, refusal := w.d.Traced(t.Context(), from("agent"), envelope.CallRef{Ref: w.state().Ref()})
			if refusal != nil || len(r.Events) != 4 {
				t.Fatalf("%+v, %v", r.Events, refusal)
			}
			if run := r.Events[2]; run.Kind != envelope.TraceRun || !run.Lost || run.DurationMS != 9000 {
				t.Errorf("%s: %+v", class, run)
			}
			why, _ := w.d.Why(t.Context(), from("agent"), w.query(1))
			if !strings.Contains(why.Sentence, "decided 20s after the deadline") || strings.Contains(why.Sentence, "slow") {
				t.Errorf("%s: %s", class, why.Sentence)
			}
		})
	}
}

// A run that another claim followed, or whose effect was asked for, is shown as lost. The first claim of a call that
// runs without one at first says that an earlier run may be lost, if it came a lease after the request. So does why.
func TestTracedLostRuns(t *testing.T) {
	for class, wait := range map[call.EffectClass]time.Duration{
		call.Idempotent: time.Second, call.Pure: time.Second - time.Millisecond, call.SideEffectful: time.Second,
	} {
		bubble(t, class, func(t *testing.T, w *world) {
			w.d.Heads, w.d.Lease = stored{w.log}, time.Second
			w.ask(1)
			pass(wait)
			w.claim()
			why, _ := w.d.Why(t.Context(), from("agent"), w.query(1))
			if strings.Contains(why.Sentence, " Claim 1: "+call.RanBefore+".\n") != (class == call.Idempotent) {
				t.Errorf("%s: %s", class, why.Sentence)
			}
			pass(2 * time.Second)
			a := w.state().Last()
			if class == call.SideEffectful {
				w.endsAs(call.Completion{Cause: call.ClaimLost, By: call.ByExecutor, Nonce: "d", Now: call.At(time.Now()),
					Answer: call.LookupAbsent, Error: envelope.CodeToolUnknownState})
			} else {
				_, e := call.Take(w.state(), call.WorkDelivery{Attempt: 1, Admitted: a.Admitted, Deliveries: 3,
					By: "default/e2", Nonce: "d", Now: call.At(time.Now()), Gone: func(string) bool { return true }})
				if _, err := w.log.Write(t.Context(), e, nil); err != nil {
					t.Fatal(err)
				}
			}
			r, _, refusal := w.d.Traced(t.Context(), from("agent"), envelope.CallRef{Ref: w.state().Ref()})
			if refusal != nil || len(r.Events) != 5 {
				t.Fatalf("%s: %+v, %v", class, r.Events, refusal)
			}
			if first := r.Events[1]; first.Kind != envelope.TraceClaimed || first.Lost != (class == call.Idempotent) {
				t.Errorf("%s: %+v", class, first)
			}
			if run := r.Events[2]; run.Kind != envelope.TraceRun || !run.Lost || run.By != "default/e1" ||
				run.DurationMS != 2000 || run.Fence != a.Claim.Fence {
				t.Errorf("%s: %+v", class, run)
			}
			if last := r.Events[len(r.Events)-1]; last.Lost {
				t.Errorf("%s: %+v", class, last)
			}
			why, _ = w.d.Why(t.Context(), from("agent"), w.query(1))
			if strings.Contains(why.Sentence, " Claim 2: "+call.RanBefore+".\n") != (class != call.SideEffectful) {
				t.Errorf("%s: %s", class, why.Sentence)
			}
		})
	}
}
