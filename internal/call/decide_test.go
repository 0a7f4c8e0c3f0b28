package call_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// The endings of a tool in the tests.
func tool(code envelope.Code, effect envelope.Effect) call.Completion {
	return call.Completion{Cause: call.ToolEnded, Error: code, Effect: effect}
}

func TestDecideJudges(t *testing.T) {
	t.Parallel()
	const (
		pure, idem, side = call.Pure, call.Idempotent, call.SideEffectful
		future           = call.EffectClass("of a later version")
		dry              = call.EffectClass("dry") // run of a side-effectful tool
		none, applied    = envelope.EffectNone, envelope.EffectApplied
		unknown          = envelope.EffectUnknown
		open, mine       = "", "mine" // who claimed, besides "other"
	)
	cause := func(c call.Cause) call.Completion { return call.Completion{Cause: c} }
	broken := func(code envelope.Code) call.Completion {
		return call.Completion{Cause: call.Unrunnable, Error: code, Effect: none}
	}
	for name, c := range map[string]struct {
		class  call.EffectClass
		claim  string
		end    call.Completion
		code   envelope.Code
		effect envelope.Effect
	}{
		"pure, success": {pure, open, tool("", applied), "", none},
		"pure, error": {pure, open, tool(envelope.CodeUpstream, unknown),
			envelope.CodeUpstream, none},
		"pure, error, claimed": {pure, mine, tool(envelope.CodeUpstream, applied),
			envelope.CodeUpstream, none},
		"pure, timed out":                         {pure, "other", cause(call.TimedOut), envelope.CodeTimeout, none},
		"pure, cancelled":                         {pure, open, cause(call.Cancelled), envelope.CodeCancelled, none},
		"pure, poison":                            {pure, "other", cause(call.Poisoned), envelope.CodeLost, none},
		"idempotent, success":                     {idem, open, tool("", applied), "", applied},
		"idempotent, success of a former claimer": {idem, "other", tool("", applied), "", applied},
		"idempotent, error without effect": {idem, open, tool(envelope.CodeUpstream, none), envelope.CodeUpstream,
			none},
		"idempotent, the same, but it ran before": {idem, mine, tool(envelope.CodeUpstream, none), envelope.CodeUpstream,
			unknown},
		"idempotent, the same, and it runs elsewhere": {idem, "other", tool(envelope.CodeUpstream, none),
			envelope.CodeUpstream, unknown},
		"idempotent, error with effect": {idem, mine, tool(envelope.CodeUpstream, applied),
			envelope.CodeUpstream, applied},
		"idempotent, error, effect unknown": {idem, open, tool(envelope.CodeUpstream, unknown),
			envelope.CodeUpstream, unknown},
		"idempotent, timed out in the queue": {idem, open, cause(call.TimedOut), envelope.CodeTimeout, unknown},
		"idempotent, timed out, claimed":     {idem, "other", cause(call.TimedOut), envelope.CodeTimeout, unknown},
		"idempotent, cancelled":              {idem, "other", cause(call.Cancelled), envelope.CodeCancelled, unknown},
		"idempotent, poison":                 {idem, "other", cause(call.Poisoned), envelope.CodeLost, unknown},
		"idempotent, unrunnable":             {idem, open, broken(envelope.CodeVersion), envelope.CodeVersion, none},
		"idempotent, unrunnable, but it ran before": {idem, mine, broken(envelope.CodeUnavailable), envelope.CodeUnavailable,
			unknown},

		"side-effectful, success": {side, mine, tool("", applied), "", applied},
		"side-effectful, success without the claim": {side, open, tool("", applied), envelope.CodeToolUnknownState,
			unknown},
		"side-effectful, success, claimed by another": {side, "other", tool("", applied), envelope.CodeToolUnknownState,
			unknown},
		"side-effectful, retryable, no effect": {side, mine, tool(envelope.CodeUpstream, none),
			envelope.CodeUpstream, none},
		"side-effectful, retryable, effect unknown": {side, mine, tool(envelope.CodeUpstream, unknown),
			envelope.CodeToolUnknownState, unknown},
		"side-effectful, retryable, effect applied": {side, mine, tool(envelope.CodeUpstream, applied),
			envelope.CodeToolUnknownState, applied},
		"side-effectful, retryable, without the claim": {side, "other", tool(envelope.CodeUpstream, none),
			envelope.CodeToolUnknownState, unknown},
		"side-effectful, terminal": {side, mine, tool(envelope.CodeOutput, applied),
			envelope.CodeOutput, applied},
		"side-effectful, timed out in the queue": {side, open, cause(call.TimedOut), envelope.CodeUnavailable, none},
		"side-effectful, timed out, claimed": {side, "other", cause(call.TimedOut), envelope.CodeTimeoutUnknown,
			unknown},
		"side-effectful, timed out in its own run": {side, mine, cause(call.TimedOut), envelope.CodeTimeoutUnknown,
			unknown},
		"side-effectful, cancelled in the queue": {side, open, cause(call.Cancelled), envelope.CodeCancelled, none},
		"side-effectful, cancelled while running": {side, "other", cause(call.Cancelled),
			envelope.CodeCancelledUnknown, unknown},
		"side-effectful, the claimer is gone": {side, "other", cause(call.ClaimLost),
			envelope.CodeToolUnknownState, unknown},
		"side-effectful, confirmed": {side, "other", cause(call.Confirmed), "", applied},
		"side-effectful, unrunnable": {side, mine, broken(envelope.CodeUnavailable),
			envelope.CodeUnavailable, none},
		"side-effectful, unrunnable, claimed by another": {side, "other", broken(envelope.CodeUnavailable),
			envelope.CodeToolUnknownState, unknown},
		"side-effectful, unrunnable and unclaimed": {side, open, broken(envelope.CodeUnavailable), envelope.CodeUnavailable,
			none},

		"dry run, success without a claim":   {dry, open, tool("", applied), "", none},
		"dry run, error with effect":         {dry, open, tool(envelope.CodeOutput, applied), envelope.CodeOutput, none},
		"dry run, timed out, claimed":        {dry, "other", cause(call.TimedOut), envelope.CodeTimeout, none},
		"dry run, cancelled while running":   {dry, "other", cause(call.Cancelled), envelope.CodeCancelled, none},
		"dry run, retryable, effect unknown": {dry, mine, tool(envelope.CodeUpstream, unknown), envelope.CodeUpstream, none},

		"unknown class, timed out, claimed": {future, "other", cause(call.TimedOut), envelope.CodeTimeoutUnknown,
			unknown},
		"unknown class, timed out in the queue":    {future, open, cause(call.TimedOut), envelope.CodeUnavailable, none},
		"unknown class, success without the claim": {future, open, tool("", applied), envelope.CodeToolUnknownState, unknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			if j.dry = c.class == dry; j.dry {
				c.class = side
			}
			j.admit(c.class, "A")
			if c.claim != open {
				j.claim(c.claim)
			}
			if c.claim == mine {
				c.end.Claim = mine
			}
			r := call.Decide(j.state, 1, j.state.Last().Admitted, c.end)
			if !r.Do || r.Code != c.code || r.Effect != c.effect {
				t.Errorf("ruling %t %s %s, want %s %s", r.Do, r.Code, r.Effect, c.code, c.effect)
			}
			d := r.Event.State.Last().Decision
			if d.Code != r.Code || d.Effect != r.Effect || c.code == "" && d.Status != envelope.Success || c.code != "" &&
				d.Status != c.code.Status() {
				t.Errorf("decision %+v", d)
			}
			if d.Status == envelope.RetryableError && !j.state.MayRunAgain() && d.Effect != none {
				t.Error("a call that must not run twice may be asked again with its effect unknown")
			}
		})
	}
}

func TestToolFaultIsRetryableOnce(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	for n, want := range []envelope.Code{envelope.CodeToolFault, envelope.CodeUpstream, "S-TOOL-ITS_OWN",
		envelope.CodeToolFaultAgain} {
		j.admit(call.Idempotent, string(rune('A'+n)))
		code := want
		if want == envelope.CodeToolFaultAgain {
			code = "S-TOOL-ANOTHER"
		}
		j.decide(tool(code, envelope.EffectNone))
		if got := j.state.Last().Decision.Code; got != want {
			t.Errorf("attempt %d: %s, want %s", n+1, got, want)
		}
	}
	if !j.state.Final() {
		t.Error("the second fault in a row is not final")
	}
}

// That no executor has the tool is no fault of the tool's own, however often it is said.
func TestUnavailableIsNoToolFault(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	for n, code := range []envelope.Code{envelope.CodeUnavailable, envelope.CodeUnavailable, envelope.CodeToolFault,
		envelope.CodeUnavailable} {
		j.admit(call.Idempotent, string(rune('A'+n)))
		j.decide(tool(code, envelope.EffectNone))
		if got := j.state.Last().Decision.Code; got != code {
			t.Errorf("attempt %d: %s, want %s", n+1, got, code)
		}
	}
}

func TestDecideAdoptsOrIsGone(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.admit(call.Pure, "A")
	first := j.state.Last().Admitted
	j.fail()
	j.admit(call.Pure, "B")
	second := j.state.Last().Admitted
	end := call.Completion{Cause: call.TimedOut, Nonce: "late"}
	for name, c := range map[string]struct {
		state    call.State
		n        int
		admitted uint64
		want     call.DecideResult
	}{
		"decided":           {j.state, 1, first, call.DecideResult{}},
		"another admission": {j.state, 1, second, call.DecideResult{Gone: true}},
		"no such attempt":   {j.state, 3, second, call.DecideResult{Gone: true}},
		"an empty log":      {call.State{}, 1, first, call.DecideResult{Gone: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, call.Decide(c.state, c.n, c.admitted, end)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecisionEvent(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	before := j.admit(call.SideEffectful, "A")
	j.claim("mine")
	fence := j.state.Last().Claim.Fence
	end := call.Completion{
		Cause: call.ToolEnded, By: call.ByExecutor, Nonce: "o", Now: start + 5, Claim: "mine", Fence: fence,
		Effect: envelope.EffectApplied, Output: "hash",
	}
	j.decide(end)
	want := &call.Decision{
		Seq: j.state.Seq, Nonce: "o", Status: envelope.Success, Effect: envelope.EffectApplied, By: call.ByExecutor,
		At: start + 5, Fence: fence, OutputHash: "hash",
	}
	if diff := cmp.Diff(want, j.state.Last().Decision); diff != "" {
		t.Error(diff)
	}
	if !before.Last().Open() {
		t.Error("a state was changed in place")
	}
}

// The hash of what a tool said stands with its error, and that of an output does not stand with an error of the ruling.
func TestDecideKeepsHash(t *testing.T) {
	for name, c := range map[string]struct {
		said envelope.Code
		want string
	}{"the tool's error": {"P-PRECOND-TOOL_ERROR", "hash"}, "an output without a claim": {"", ""}} {
		j := newJournal(t)
		s := j.admit(call.SideEffectful, "A")
		end := call.Completion{
			Cause: call.ToolEnded, By: call.ByExecutor, Nonce: "o", Now: start + 5, Error: c.said,
			Effect: envelope.EffectUnknown, Output: "hash",
		}
		r := call.Decide(s, 1, s.Last().Admitted, end)
		if got := r.Event.State.Last().Decision.OutputHash; r.Code == "" || got != c.want {
			t.Errorf("%s: %s, hash %q, want %q", name, r.Code, got, c.want)
		}
	}
}
