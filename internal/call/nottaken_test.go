package call_test

import (
	"fmt"
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// TestUntaken says which ends of an attempt prove that nobody took it, and what callers are told then.
func TestUntaken(t *testing.T) {
	t.Parallel()
	const pure, idem, side = call.Pure, call.Idempotent, call.SideEffectful
	const due = start + 15_000
	const none, unknown = envelope.EffectNone, envelope.EffectUnknown
	const unserved, late = envelope.CodeUnavailable, envelope.CodeTimeout
	timedOut, deserted := call.Completion{Cause: call.TimedOut}, call.Completion{Cause: call.PoolAbsent}
	otherBuild := call.Completion{Cause: call.BuildAbsent, By: call.ByDispatcher}
	sure := func(e call.Completion) call.Completion { e.NotTaken = true; return e }
	stored := func(e call.Completion, at call.UnixMS) call.Completion { e.Stored = at; return e }
	for name, c := range map[string]struct {
		class   call.EffectClass
		dry     bool
		claimed bool
		end     call.Completion
		code    envelope.Code // "" where nothing may be decided
		effect  envelope.Effect
		untaken bool
	}{
		"pure, timed out":                         {pure, false, false, timedOut, late, none, false},
		"pure, never delivered":                   {pure, false, false, sure(timedOut), unserved, none, true},
		"pure, stored late":                       {pure, false, false, stored(timedOut, due), late, none, true},
		"pure, stored in time":                    {pure, false, false, stored(timedOut, due-1), late, none, false},
		"pure, deserted":                          {pure, false, false, deserted, unserved, none, false},
		"pure, deserted from the beginning":       {pure, false, false, sure(deserted), unserved, none, true},
		"pure, deserted, and claimed":             {pure, false, true, sure(deserted), "", "", false},
		"idempotent, timed out":                   {idem, false, false, timedOut, late, unknown, false},
		"idempotent, nobody there":                {idem, false, false, sure(timedOut), unserved, none, true},
		"idempotent, nobody there, but claimed":   {idem, false, true, sure(timedOut), late, unknown, false},
		"idempotent, stored late":                 {idem, false, false, stored(timedOut, due), late, none, true},
		"idempotent, stored late, but claimed":    {idem, false, true, stored(timedOut, due), late, unknown, false},
		"idempotent, deserted, somebody was here": {idem, false, false, deserted, "", "", false},
		"idempotent, deserted from the beginning": {idem, false, false, sure(deserted), unserved, none, true},
		"side-effectful, timed out":               {side, false, false, timedOut, unserved, none, true},
		"side-effectful, stored late":             {side, false, false, stored(timedOut, due), late, none, true},
		"side-effectful, claimed": {side, false, true, sure(timedOut), envelope.CodeTimeoutUnknown, unknown,
			false},
		"side-effectful, deserted":               {side, false, false, deserted, unserved, none, true},
		"side-effectful, deserted, and claimed":  {side, false, true, deserted, "", "", false},
		"pure, without its build":                {pure, false, false, otherBuild, unserved, none, false},
		"pure, always without its build":         {pure, false, false, sure(otherBuild), unserved, none, true},
		"pure, claimed, without its build":       {pure, false, true, otherBuild, unserved, none, false},
		"dry run, without its build":             {side, true, false, otherBuild, unserved, none, false},
		"idempotent, without its build":          {idem, false, false, otherBuild, unserved, unknown, false},
		"idempotent, always without its build":   {idem, false, false, sure(otherBuild), unserved, none, true},
		"idempotent, claimed, without its build": {idem, false, true, sure(otherBuild), unserved, unknown, false},
		"side-effectful, without its build":      {side, false, false, otherBuild, unserved, none, true},
		"side-effectful, claimed, without its build": {side, false, true, sure(otherBuild), envelope.CodeToolUnknownState,
			unknown, false},
		"dry run, timed out": {side, true, false, timedOut, late, none, false},
		"cancelled in the queue": {side, false, false, call.Completion{Cause: call.Cancelled},
			envelope.CodeCancelled, none, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			j.dry = c.dry
			if j.admit(c.class, "A"); c.claimed {
				j.claim("other")
			}
			r := call.Decide(j.state, 1, j.state.Last().Admitted, c.end)
			if r.Taken != (c.code == "") || r.Do == r.Taken || r.Code != c.code || r.Effect != c.effect {
				t.Fatalf("ruling %+v", r)
			}
			if !r.Do {
				return
			}
			d := r.Event.State.Last().Decision
			if d.NotTaken != c.untaken || d.BuildAbsent != (c.end.Cause == call.BuildAbsent) {
				t.Errorf("decision %+v", d)
			}
			if d.Status == envelope.RetryableError && !j.state.MayRunAgain() && d.Effect != none {
				t.Error("a call that must not run twice may be asked again with its effect unknown")
			}
		})
	}
}

// Attempts that nobody took use up nothing of the key: dozens of them are followed by as many that ran as any
// key may have.
func TestUntakenAttemptsDoNotCount(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	wide := func(n int) call.AdmitRequest { // as large as the library and a dispatcher with traces make it
		a := ask(call.SideEffectful, fmt.Sprintf("11111111-1111-4111-8111-1111111111%02d", n))
		a.Owner = call.Owner{
			CallID: a.Owner.CallID, Actor: "agent", ContentType: "application/json",
			Reply: "tb.ans.acme.agent.Zk3vB8wQm1TqYxN0cR2dLs.1a2b",
			Trace: "22222222-2222-4222-8222-222222222222", Parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		}
		a.Nonce = "3f2c9a51e07d8.1z"
		return a
	}
	untaken := call.Completion{Cause: call.TimedOut, By: call.ByDeadline, Nonce: "3f2c9a51e07d8.1z", Now: start + 15_000}
	const many = 60
	for n := range many {
		j.add(call.Admit(j.state, wide(n)).Event)
		j.decide(untaken)
	}
	for n := range call.MaxAttempts {
		j.admit(call.SideEffectful, fmt.Sprint("B", n))
		j.claim(fmt.Sprint("c", n))
		j.fail()
	}
	if v := call.Admit(j.state, ask(call.SideEffectful, "C")); v.Do != call.Refuse || v.Code != envelope.CodeAttempts {
		t.Errorf("after %d attempts, of which %d ran: %+v", many+call.MaxAttempts, call.MaxAttempts, v)
	}
}

// Whatever lies between, a second fault of the tool is not retried.
func TestUntakenAttemptsLieBetweenFaults(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	fault := tool(envelope.CodeToolFault, envelope.EffectNone)
	j.admit(call.Idempotent, "A")
	j.decide(fault)
	j.admit(call.Idempotent, "B")
	j.decide(call.Completion{Cause: call.TimedOut, NotTaken: true})
	j.admit(call.Idempotent, "C")
	j.decide(fault)
	if d := j.state.Last().Decision; d.Code != envelope.CodeToolFaultAgain {
		t.Errorf("the second fault is %s", d.Code)
	}
}
