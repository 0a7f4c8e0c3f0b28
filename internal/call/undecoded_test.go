package call_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// undecoded lets an executor write an event of the newest attempt that cannot be decoded.
func (j *journal) undecoded() {
	j.state = j.state.Undecoded(j.state.Last().N)
	j.state.Seq++
}

// An attempt with an event of an executor that cannot be decoded ends as a terminal error with effect unknown, unless
// an executor says by its own run how it ended.
func TestUndecodedAttemptsEnd(t *testing.T) {
	t.Parallel()
	const none, unknown = envelope.EffectNone, envelope.EffectUnknown
	const late, cancelled = envelope.CodeTimeoutUnknown, envelope.CodeCancelledUnknown
	cause := func(c call.Cause) call.Completion {
		return call.Completion{Cause: c, By: call.ByDeadline, Nonce: "d-1.1"}
	}
	sure := call.Completion{Cause: call.TimedOut, By: call.ByDeadline, NotTaken: true, Stored: start + 16_000}
	for _, class := range []call.EffectClass{call.Pure, call.Idempotent, call.SideEffectful} {
		for _, claimed := range []bool{false, true} {
			for name, c := range map[string]struct {
				end    call.Completion
				code   envelope.Code
				effect envelope.Effect
			}{
				"timed out":             {cause(call.TimedOut), late, unknown},
				"timed out, not handed": {sure, late, unknown},
				"cancelled":             {cause(call.Cancelled), cancelled, unknown},
				"poison":                {cause(call.Poisoned), envelope.CodeLost, unknown},
			} {
				j := newJournal(t)
				if j.admit(class, "A"); claimed {
					j.claim("other")
				}
				j.undecoded()
				s := j.decide(c.end)
				d := s.Last().Decision
				if d.Status != envelope.TerminalError || d.Code != c.code || d.Effect != c.effect || d.NotTaken {
					t.Errorf("%s, claimed %t, %s: %+v", class, claimed, name, d)
				}
				if s.NotStarted(1) || s.Untouched() {
					t.Errorf("%s, claimed %t, %s: it counts as not started", class, claimed, name)
				}
			}
			j := newJournal(t)
			if j.admit(class, "A"); claimed {
				j.claim("other")
			}
			j.undecoded()
			a := j.state.Last()
			if r := call.Decide(j.state, 1, a.Admitted, call.Completion{Cause: call.PoolAbsent, NotTaken: true}); !r.Taken {
				t.Errorf("%s, claimed %t: deserted: %+v", class, claimed, r)
			}
			r := call.Decide(j.state, 1, a.Admitted, call.Completion{Cause: call.BuildAbsent, NotTaken: true})
			if r.Code != envelope.CodeToolUnknownState || r.Effect != envelope.EffectUnknown {
				t.Errorf("%s, claimed %t: no executor has its build: %+v", class, claimed, r)
			}
		}
	}
}

// The result of a run counts after such an event, but its error speaks for that run alone.
func TestUndecodedAndRun(t *testing.T) {
	t.Parallel()
	for _, class := range []call.EffectClass{call.Pure, call.Idempotent} {
		j := newJournal(t)
		j.admit(class, "A")
		j.undecoded()
		if d := j.succeed().Last().Decision; d.Status != envelope.Success {
			t.Errorf("%s, success: %+v", class, d)
		}
	}
	j := newJournal(t)
	j.admit(call.Idempotent, "A")
	j.undecoded()
	if d := j.fail().Last().Decision; d.Code != envelope.CodeUpstream || d.Effect != envelope.EffectUnknown {
		t.Errorf("error without effect: %+v", d)
	}
	j = newJournal(t)
	j.admit(call.SideEffectful, "A")
	j.claim("other")
	j.undecoded()
	if d := j.succeed().Last().Decision; d.Status != envelope.Success {
		t.Errorf("success of the claimer: %+v", d)
	}
}

// No executor starts a side-effectful attempt that may have run. Others may run again.
func TestUndecodedIsTaken(t *testing.T) {
	t.Parallel()
	for class, want := range map[call.EffectClass]call.NextStep{
		call.Pure: call.TakeClaim, call.Idempotent: call.TakeClaim, call.SideEffectful: call.WaitClaim,
	} {
		j := newJournal(t)
		j.admit(class, "A")
		j.undecoded()
		p := j.pickup("c")
		p.Deliveries = 2
		if step, _ := call.Take(j.state, p); step != want {
			t.Errorf("%s: step %d, want %d", class, step, want)
		}
		p.Now = start + 15_000
		if step, _ := call.Take(j.state, p); step != call.Expire {
			t.Errorf("%s past its deadline: step %d", class, step)
		}
	}
}

// The mark is for open attempts, outlives what is written to the log after it, and is not for the attempts that follow.
func TestUndecodedMark(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.admit(call.Idempotent, "A")
	j.undecoded()
	if j.admit(call.Idempotent, "B"); !j.state.Last().Undecoded || len(j.state.Last().Joined) != 1 {
		t.Errorf("after a join: %+v", j.state.Last())
	}
	if j.claim("c"); !j.state.Last().Undecoded {
		t.Errorf("after a claim: %+v", j.state.Last())
	}
	j.fail()
	if s := j.state.Undecoded(2); s.Seq != j.state.Seq || len(s.Attempts) != 1 {
		t.Errorf("of an attempt that is not there: %+v", s)
	}
	if j.admit(call.Idempotent, "C"); j.state.Last().Undecoded {
		t.Errorf("of the next attempt: %+v", j.state.Last())
	}
	if s := j.state.Undecoded(1); s.Last().Undecoded || s.Attempts[0].Decision == nil {
		t.Errorf("of a decided attempt: %+v", s)
	}
}

func TestUndecodedIsExplained(t *testing.T) {
	t.Parallel()
	const because = "of an executor, that cannot be decoded, so nobody knows its effect"
	j := newJournal(t)
	j.admit(call.SideEffectful, "A")
	j.undecoded()
	at := (start + 1000).Time()
	if s := call.Explain(j.state, 1, at); !strings.Contains(s, because) || !strings.Contains(s, "deadline, in 14s") {
		t.Error(s)
	}
	j.decide(call.Completion{Cause: call.TimedOut, By: call.ByDeadline, Nonce: "d-1.1", Now: start + 15_000})
	if s := call.Explain(j.state, 1, at.Add(time.Minute)); !strings.Contains(s, because) {
		t.Error(s)
	}
}
