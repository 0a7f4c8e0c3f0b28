package call_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	const side, idem = call.SideEffectful, call.Idempotent
	for name, c := range map[string]struct {
		log   func(*journal)
		after time.Duration
		n     int
		want  string
	}{
		"unknown": {func(j *journal) { j.admit(side, "A") }, 0, 2, "No such attempt is known."},
		"queued": {
			func(j *journal) { j.admit(side, "A") }, time.Second, 1,
			"Attempt 1 of web.fetch 1.0.0 (fetch) waits for a free slot in pool default with normal priority and has 14s " +
				"until its deadline.",
		},
		"queued behind others": {
			func(j *journal) {
				a := ask(side, "A")
				a.Step = 3
				j.add(call.Admit(j.state, a).Event)
			}, time.Second, 1,
			"Attempt 1 of web.fetch 1.0.0 (fetch) waits for a free slot in pool default with normal priority, after any " +
				"calls of actors and tenants with fewer open, and has 14s until its deadline.",
		},
		"queued or running": {
			func(j *journal) { j.admit(idem, "A") }, time.Second, 1,
			"Attempt 1 of web.fetch 1.0.0 (fetch) waits for, or runs in, a slot of pool default with normal priority " +
				"(idempotent calls run without a claim) and has 14s until its deadline.",
		},
		"claimed alone": {
			func(j *journal) { j.admit(idem, "A"); j.claim("c"); j.claimAlone("d") }, time.Second, 1,
			"Attempt 1 of web.fetch 1.0.0 (fetch) was claimed by executor default/e-d (claim 2, 1 of them to run alone) " +
				"and has 14s until its deadline.",
		},
		"claimed": {
			func(j *journal) { j.admit(side, "A"); j.claim("c") }, time.Second, 1,
			"Attempt 1 of web.fetch 1.0.0 (fetch) was claimed by executor default/e-c (claim 1) and has 14s until its deadline.",
		},
		"overdue": {
			func(j *journal) { j.admit(side, "A") }, 16 * time.Second, 1,
			"Attempt 1 of web.fetch 1.0.0 (fetch) is past its deadline by 1s and waits for a guardian to time it out.",
		},
		"succeeded": {
			func(j *journal) { j.admit(idem, "A"); j.succeed() }, time.Second, 1,
			"Attempt 1 of web.fetch 1.0.0 (fetch) succeeded after 20ms; its outcome is kept and replayed.",
		},
		"found by the lookup": {
			func(j *journal) {
				j.admit(side, "A")
				j.claim("c")
				j.decide(call.Completion{Cause: call.Confirmed, By: call.ByExecutor, Nonce: "other.1", Output: "o",
					Now: start + 20})
			}, time.Second, 1,
			"Attempt 1 of web.fetch 1.0.0 (fetch) succeeded after 20ms: the process that ran the call is gone; its effect " +
				"was found by the lookup of the tool; its outcome is kept and replayed.",
		},
		"side effects that succeeded": {
			func(j *journal) {
				j.admit(side, "A")
				j.claim("c.1")
				j.decide(call.Completion{Cause: call.ToolEnded, By: call.ByExecutor, Nonce: "c.2", Claim: "c.1",
					Effect: envelope.EffectApplied, Output: "o", Now: start + 20})
			}, time.Second, 1,
			"Attempt 1 of web.fetch 1.0.0 (fetch) succeeded after 20ms; its outcome is kept and replayed.",
		},
		"retryable": {
			func(j *journal) {
				j.admit(side, "A")
				j.decide(call.Completion{Cause: call.Cancelled, By: call.ByCanceller, Now: start + 500})
			}, time.Second, 1,
			"Attempt 1 of web.fetch 1.0.0 (fetch) ended after 500ms with retryable_error (P-PRECOND-CANCELLED), decided by " +
				"the canceller, effect none: the owner of the call cancelled it; the same key may be asked again and runs as the " +
				"next attempt.",
		},
		"retried": {
			func(j *journal) {
				j.admit(side, "A")
				j.decide(call.Completion{Cause: call.Cancelled, By: call.ByCanceller, Now: start + 500})
				j.admit(side, "B")
			}, time.Second, 1,
			"Attempt 1 of web.fetch 1.0.0 (fetch) ended after 500ms with retryable_error (P-PRECOND-CANCELLED), decided by " +
				"the canceller, effect none: the owner of the call cancelled it; attempt 2 followed.",
		},
		"no executor has the build": {
			func(j *journal) {
				a := ask(side, "A")
				a.Pinned.Digest = "sha256:0123456789abcdef"
				j.add(call.Admit(j.state, a).Event)
				j.decide(call.Completion{Cause: call.BuildAbsent, By: call.ByDispatcher, Now: start + 500})
			}, time.Second, 1,
			"Attempt 1 of web.fetch 1.0.0 (fetch) ended after 500ms with retryable_error (S-TOOL-UNAVAILABLE), decided by the " +
				"dispatcher, effect none: no live executor of pool default has the admitted build of web.fetch 1.0.0, " +
				"sha256:0123456789ab; the same key may be asked again and runs as the next attempt.",
		},
		"no executor has the build of a claimed call": {
			func(j *journal) {
				j.admit(side, "A")
				j.claim("c")
				j.decide(call.Completion{Cause: call.BuildAbsent, By: call.ByDispatcher, Now: start + 500})
			}, time.Second, 1,
			"Attempt 1 of web.fetch 1.0.0 (fetch) ended after 500ms with terminal_error (S-TOOL-UNKNOWN), decided by the " +
				"dispatcher, effect unknown: the process that ran the call is gone; no lookup was asked, because no live " +
				"executor has the admitted build; the same key returns this outcome and does not run again; the tool knows the " +
				"call as id: look for its effect under that name.",
		},
		"the lookup is absent": {
			func(j *journal) {
				j.admit(side, "A")
				j.claim("c")
				j.decide(call.Completion{
					Cause: call.ClaimLost, By: call.ByExecutor, Answer: call.LookupAbsent, Now: start + 500,
				})
			}, time.Minute, 1,
			"Attempt 1 of web.fetch 1.0.0 (fetch) ended after 500ms with terminal_error (S-TOOL-UNKNOWN), decided by the " +
				"executor, effect unknown: the process that ran the call is gone; the lookup of the tool was asked and found no " +
				"effect, which does not prove that nothing was done; the same key returns this outcome and does not run again; " +
				"the tool knows the call as id: look for its effect under that name.",
		},
		"terminal": {
			func(j *journal) {
				j.admit(side, "A")
				j.claim("c")
				j.decide(call.Completion{Cause: call.TimedOut, By: call.ByDeadline, Now: start + 15_000})
			}, time.Minute, 1,
			"Attempt 1 of web.fetch 1.0.0 (fetch) ended after 15s with terminal_error (R-TIMEOUT-002), decided by the " +
				"deadline, effect unknown: no outcome came by the deadline: the tool may still be running, or its executor may " +
				"have died; no lookup was asked in time: one is asked only once the executor was silent for its lease; the same " +
				"key returns this outcome and does not run again; the tool knows the call as id: look for its " +
				"effect under that name.",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			c.log(j)
			if got := call.Explain(j.state, c.n, start.Time().Add(c.after)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// The end of an attempt is explained by what its error says, before what its code says.
func TestExplainEnd(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.admit(call.Idempotent, "A")
	s := j.fail()
	code := s.Last().Decision.Code
	plain, crash := envelope.NewError(code, ""), envelope.NewError(code, "the tool ended without an answer")
	crash.WithCause("exit status 7").WithStderr("Traceback:\n  KeyError: 'x'\n" + strings.Repeat("y", 1000))
	general := envelope.Lookup(code).LikelyCause
	bad := slices.Repeat([]jsonschema.Violation{{Pointer: "/txt", Message: "is not allowed here"}, {Message: "is odd"}}, 3)
	for name, c := range map[string]struct {
		e       *envelope.Error
		has     string
		general bool
	}{
		"no error":        {nil, general, true},
		"none of its own": {plain, general, true},
		"violations": {envelope.NewError(code, "").WithViolations(bad[:2]...),
			general + "; /txt is not allowed here; it is odd; the same key", true},
		"many violations": {envelope.NewError(code, "").WithViolations(bad...), "; /txt is not allowed here; and more", true},
		"its own": {crash, "the tool ended without an answer (exit status 7); standard error begins: " +
			"Traceback: KeyError: 'x' yyy", false},
	} {
		got := call.ExplainEnd(s, s.Last(), c.e)
		if !strings.Contains(got, c.has) || strings.Contains(got, general) != c.general || len(got) > 1000 {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A call without a claim has waited until its deadline, as far as the log shows. That is no run that was ended then.
func TestReasonOfNoRun(t *testing.T) {
	t.Parallel()
	const waited, silent = "no executor reported a run by the deadline: the call waited", "may still be running"
	for name, c := range map[string]struct {
		claim bool
		end   call.Completion
		says  string
	}{
		"waited":               {false, call.Completion{By: call.ByDeadline}, waited},
		"claimed":              {true, call.Completion{By: call.ByDeadline}, silent},
		"ended by an executor": {false, call.Completion{By: call.ByExecutor, Fence: 7}, ""},
	} {
		j := newJournal(t)
		j.admit(call.Pure, "A")
		if c.claim {
			j.claim("c")
		}
		c.end.Cause, c.end.Now = call.TimedOut, start+15_000
		s := j.decide(c.end)
		if got, _ := call.Reason(s, s.Last()); !strings.Contains(got, c.says) || (got == "") != (c.says == "") {
			t.Errorf("%s: %q, want %q", name, got, c.says)
		}
	}
}

// A side-effectful call whose executor went silent says whether a lookup could have been asked. One that the executor
// ended itself does not.
func TestReasonOfSilence(t *testing.T) {
	t.Parallel()
	for says, c := range map[string]struct {
		lookup call.Lookup
		by     call.Decider
	}{
		"no lookup was asked in time": {call.LookupYes, call.ByDeadline},
		"the tool declares no lookup": {call.LookupNo, call.ByDeadline},
		"":                            {call.LookupYes, call.ByExecutor},
	} {
		j := newJournal(t)
		j.admit(call.SideEffectful, "A")
		j.state.Lookup = c.lookup
		j.claim("c")
		s := j.decide(call.Completion{Cause: call.TimedOut, By: c.by, Now: start + 15_000})
		if got, _ := call.Reason(s, s.Last()); !strings.Contains(got, says) || (got == "") != (says == "") {
			t.Errorf("%s, %s: %q, want %q", c.lookup, c.by, got, says)
		}
	}
}

// A call that was decided long after its deadline had no dispatcher: more time would not have helped. A decision a
// second after the deadline is not late, nor one of an executor that ran the call.
func TestReasonOfLateDecision(t *testing.T) {
	t.Parallel()
	const late = "; the call was decided 37s after the deadline, when a dispatcher was there again: no dispatcher served"
	for name, c := range map[string]struct {
		class call.EffectClass
		claim bool
		fix   string
	}{
		"may run without a claim": {call.Idempotent, false, "call again with the same key"},
		"claimed":                 {call.SideEffectful, true, "find out whether the effect took place"},
		"not taken":               {call.SideEffectful, false, "call again with the same key"},
	} {
		for _, end := range []struct {
			by    call.Decider
			fence uint64
			after call.UnixMS
			late  bool
		}{
			{call.ByDeadline, 0, 37_000, true},
			{call.ByDeadline, 0, 1000, false},
			{call.ByExecutor, 0, 37_000, true},  // it got the call after the deadline
			{call.ByExecutor, 7, 37_000, false}, // it ran the call until the deadline
		} {
			j := newJournal(t)
			j.admit(c.class, "A")
			if c.claim {
				j.claim("c")
			}
			s := j.decide(call.Completion{Cause: call.TimedOut, By: end.by, Fence: end.fence, Now: start + 15_000 + end.after})
			message, fix := call.Reason(s, s.Last())
			if strings.Contains(message, late) != end.late {
				t.Errorf("%s: %+v: %q", name, end, message)
			}
			if end.late && (!strings.HasPrefix(fix, c.fix) || strings.Contains(fix, "timeout")) {
				t.Errorf("%s: %q", name, fix)
			}
		}
	}
}

// The command that starts an executor says which credentials it needs.
func TestReasonNamesCredentials(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]call.Completion{
		"no executor": {Cause: call.PoolAbsent, By: call.ByDispatcher, NotTaken: true},
		"not taken":   {Cause: call.TimedOut, By: call.ByDeadline, NotTaken: true},
	} {
		j := newJournal(t)
		j.admit(call.Idempotent, "A")
		s := j.decide(end)
		_, fix := call.Reason(s, s.Last())
		if !strings.Contains(fix, "`toolbus executor --pool default` (on a bus with tokens with the --credentials of") {
			t.Errorf("%s: %s", name, fix)
		}
	}
}
