package dispatcher_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/calltest"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// To know the reference of a call is not enough to be told of it, or to end it: it takes one of its call
// ids, or to be its owner's actor. The call id of another call is none.
func TestStrangersAreToldNothing(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		stranger := w.query(9)
		check := func(when string) {
			t.Helper()
			if r, refusal := w.d.Result(t.Context(), from("stranger"), stranger); refusal == nil ||
				refusal.Code != envelope.CodeNotFound {
				t.Errorf("%s: result %+v, %v", when, r, refusal)
			}
			if c, refusal := w.d.Cancel(t.Context(), from("stranger"), stranger); refusal == nil ||
				refusal.Code != envelope.CodeNotFound {
				t.Errorf("%s: cancel %+v, %v", when, c, refusal)
			}
			if _, refusal := w.d.StateOf(t.Context(), from("stranger"), stranger, 1); refusal == nil ||
				refusal.Code != envelope.CodeNotFound {
				t.Errorf("%s: state, as chunks are read by it: %v", when, refusal)
			}
		}
		check("open")
		if !w.state().Last().Open() {
			t.Fatal("a stranger has ended the call")
		}
		w.decide("")
		check("decided")
	})
}

// Another actor may share a call and know its owner's call id. Its cancel changes nothing for the owner, which waits in
// the dispatcher because it has sent its request twice.
func TestOnlyTheOwnersActorCancels(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.ask(1)
		c, refusal := w.d.Cancel(t.Context(), from("other"), w.query(1))
		if refusal != nil || c.Phase != "detached" || c.Response != nil || w.kills != 0 || !w.state().Last().Open() {
			t.Errorf("%+v, %v, %d kills", c, refusal, w.kills)
		}
		if got := w.outcomes["inbox1"]; len(got) > 0 {
			t.Errorf("the owner was told %+v", got)
		}
	})
}

// Whoever names a call id is answered under it, also if it owns the call under another.
func TestResultOfTheCallIDThatIsNamed(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.ask(2)
		pass(100 * time.Millisecond)
		a, refusal := w.d.Result(t.Context(), from("agent"), w.query(2))
		if refusal != nil || a.Accepted.CallID != uuid(2) || !a.Accepted.Joined {
			t.Errorf("open: %+v, %v", a, refusal)
		}
		w.decide("")
		r, refusal := w.d.Result(t.Context(), from("agent"), w.query(2))
		if refusal != nil || r.Response.CallID != uuid(2) {
			t.Errorf("decided: %+v, %v", r, refusal)
		}
	})
}

// unreadable is a log that cannot be read: not at all, or not at a position.
type unreadable struct {
	*calltest.Log
	all bool
}

var errRead = errors.New("the log cannot be read")

func (l unreadable) Read(ctx context.Context, tool, id string) (call.Entry, error) {
	if l.all {
		return call.Entry{}, errRead
	}
	return l.Log.Read(ctx, tool, id)
}

func (unreadable) Get(context.Context, call.Position) (call.Entry, error) {
	return call.Entry{}, errRead
}

// A log that cannot be read is not taken for one without the call.
func TestUnreadableIsNotUnknown(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.decide("")
		q := w.query(1)
		for _, all := range []bool{true, false} {
			w.d.CallLog = unreadable{w.log, all}
			if _, refusal := w.d.Result(t.Context(), from("agent"), q); refusal == nil ||
				refusal.Code != envelope.CodeUnavailable {
				t.Errorf("result: %v", refusal)
			}
			if _, refusal := w.d.Cancel(t.Context(), from("agent"), q); refusal == nil ||
				refusal.Code != envelope.CodeUnavailable {
				t.Errorf("cancel: %v", refusal)
			}
		}
		if _, refusal := w.d.Result(t.Context(), from("agent"), envelope.CallRef{Ref: "nonsense"}); refusal == nil ||
			!strings.Contains(refusal.Fix, "audit replay --call ID") ||
			refusal.Code != envelope.CodeMalformed {
			t.Errorf("what is no reference: %v", refusal)
		}
	})
}

// claim writes the claim of an executor.
func (w *world) claim() {
	w.t.Helper()
	a := w.state().Last()
	_, e := call.Take(w.state(), call.WorkDelivery{Attempt: a.N, Admitted: a.Admitted, Deliveries: 2, By: "default/e1",
		Nonce: "c", Now: call.At(time.Now())})
	if _, err := w.log.Write(w.t.Context(), e, nil); err != nil {
		w.t.Fatal(err)
	}
}

// The owner need not name its call id. A claim says that the tool may run, also if no executor answers;
// and whoever waits for the outcome is told it by the canceller.
func TestCancelWithoutCallID(t *testing.T) {
	for told, setup := range map[string]func(*world){"queued": func(*world) {}, "running": (*world).claim} {
		t.Run(told, func(t *testing.T) {
			bubble(t, call.SideEffectful, func(t *testing.T, w *world) {
				w.ask(1)
				setup(w)
				c, refusal := w.d.Cancel(t.Context(), from("agent"), envelope.CallRef{Ref: w.state().Ref()})
				if refusal != nil || c.Phase != told || w.kills != 1 {
					t.Fatalf("%+v, %v, %d kills", c, refusal, w.kills)
				}
				if r := w.outcome(1); r.Error == nil || r.Error.Code != c.Response.Error.Code || r.CallID != uuid(1) {
					t.Errorf("the owner was told %+v", r)
				}
			})
		})
	}
}

// A cancel that comes after the deadline, and before anybody has kept that, still ends the run.
func TestCancelAfterTheDeadline(t *testing.T) {
	bubble(t, call.Idempotent, func(t *testing.T, w *world) {
		w.stop()
		w.running = true
		w.ask(1)
		pass(time.Minute)
		c, refusal := w.d.Cancel(t.Context(), from("agent"), w.query(1))
		if refusal != nil || c.Phase != "running" || w.kills != 1 {
			t.Errorf("%+v, %v, %d kills", c, refusal, w.kills)
		}
	})
}

// Whether a request for which there is no room, or that is denied, is bound to an attempt already, only the log says:
// where it cannot be read the caller is not refused. It may have an outcome, and asks again.
func TestNobodyIsRefusedUnread(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.lag = time.Hour
		w.d.CallLog = unreadable{w.log, true}
		w.ask(1)
		w.manifest.Status = tool.StatusDisabled
		w.ask(1)
		if w.answers() != 0 || len(w.denied) != 0 {
			t.Errorf("%d answers, recorded %v", w.answers(), w.denied)
		}
	})
}

// A further attempt has to carry the outcomes of those before it: where they cannot be read it is not opened.
func TestNoAttemptWithoutEarlierOutcomes(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.decide(envelope.CodeUpstream)
		w.d.CallLog = unreadable{w.log, true}
		w.ask(2)
		if n := len(w.state().Attempts); n != 1 || w.acceptedBy(2) != 0 || w.answers() != 0 {
			t.Errorf("%d attempts, accepted %d times, %d answers", n, w.acceptedBy(2), w.answers())
		}
	})
}

// What is denied, and was looked up only because it may have an outcome, is not admitted when its log turns
// out to be gone: nobody has checked it.
func TestDeniedIsNotAdmittedAnew(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.manifest.Status = tool.StatusDisabled
		w.d.CallLog = &readThen{Log: w.log, then: func() { w.log.LoseTail(0) }}
		w.ask(1)
		if n := len(w.log.Entries()); n != 0 {
			t.Errorf("%d events", n)
		}
	})
}

func (w *world) query(n int) envelope.CallRef {
	return envelope.CallRef{Ref: w.state().Ref(), CallID: uuid(n)}
}

// A cancel for which the log has no room says so.
func TestCancelInAFullLog(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.log.Before(func(call.Event) error { return call.ErrFull })
		if _, refusal := w.d.Cancel(t.Context(), from("agent"), w.query(1)); refusal == nil ||
			refusal.Code != envelope.CodeStoreFull {
			t.Errorf("%+v", refusal)
		}
	})
}

func TestCancel(t *testing.T) {
	for told, setup := range map[string]func(*world){
		"queued":  func(*world) {},
		"running": func(w *world) { w.running = true },
		"decided": func(w *world) { w.decide("") },
	} {
		t.Run(told, func(t *testing.T) {
			bubble(t, call.Idempotent, func(t *testing.T, w *world) {
				w.ask(1)
				setup(w)
				c, refusal := w.d.Cancel(t.Context(), from("agent"), w.query(1))
				if refusal != nil || c.Phase != told {
					t.Fatalf("%+v, %v", c, refusal)
				}
				if told != "decided" && (c.Response.Error.Code != envelope.CodeCancelled || w.kills != 1) {
					t.Errorf("%+v after %d kills", c.Response.Error, w.kills)
				}
				if told == "decided" && w.kills != 0 {
					t.Errorf("%d kills of a call that is over", w.kills)
				}
			})
		})
	}
}

// Only the owner's cancel decides; a joiner's detaches the joiner.
func TestJoinerCancels(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.ask(2)
		pass(10 * time.Millisecond)
		w.d.Answers.RemoveJoiner(envelope.JoinerLeft{Tool: "echo", ID: "elsewhere", Attempt: 1, CallID: "nobody"})
		w.d.Answers.RemoveJoiner(envelope.JoinerLeft{Tool: w.state().Tool, ID: w.state().ID, Attempt: 7, CallID: "nobody"})
		c, refusal := w.d.Cancel(t.Context(), from("agent"), w.query(2))
		if refusal != nil || c.Phase != "detached" || !w.state().Last().Open() {
			t.Fatalf("%+v, %v", c, refusal)
		}
		w.decide("")
		got := w.outcomes["inbox2"]
		if len(got) != 1 || got[0].Provenance.Final || got[0].Error.Code != envelope.CodeCancelled {
			t.Errorf("a detached joiner was told %+v", got)
		}
	})
}

func TestResultAndWhy(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		accepted, refusal := w.d.Result(t.Context(), from("agent"), w.query(1))
		if refusal != nil || accepted.Accepted == nil {
			t.Fatalf("open: %v, %v", accepted, refusal)
		}
		if why, _ := w.d.Why(t.Context(), from("agent"), w.query(1)); !strings.Contains(why.Sentence, "deadline") {
			t.Error(why)
		}
		if why, _ := w.d.Why(t.Context(), from("agent"), w.query(1)); !strings.Contains(why.Sentence, "no executor of pool") {
			t.Error(why)
		}
		w.executors = 1
		if why, _ := w.d.Why(t.Context(), from("agent"), w.query(1)); strings.Contains(why.Sentence, "no executor of pool") {
			t.Error(why)
		}
		w.decide("")
		w.executors = 0
		if why, _ := w.d.Why(t.Context(), from("agent"), w.query(1)); strings.Contains(why.Sentence, "no executor of pool") {
			t.Error(why)
		}
		r, refusal := w.d.Result(t.Context(), from("agent"), envelope.CallRef{Ref: w.state().Ref()})
		if refusal != nil || r.Response.Status != envelope.Success {
			t.Fatalf("decided: %+v, %v", r, refusal)
		}
		for _, q := range []struct {
			from call.Sender
			q    envelope.CallRef
		}{
			{call.Sender{Tenant: "other", Actor: "agent"}, w.query(1)},
			{from("stranger"), envelope.CallRef{Ref: w.state().Ref()}},
			{from("agent"), w.query(7)},
			{from("agent"), envelope.CallRef{Ref: "nonsense"}},
			{from("agent"), envelope.CallRef{Ref: "echo.0123456789"}},
		} {
			if _, refusal := w.d.Result(t.Context(), q.from, q.q); refusal == nil {
				t.Errorf("%+v was told", q)
			}
			if _, refusal := w.d.Cancel(t.Context(), q.from, q.q); refusal == nil {
				t.Errorf("%+v could cancel", q)
			}
			if _, refusal := w.d.Why(t.Context(), q.from, q.q); refusal == nil {
				t.Errorf("%+v was told why", q)
			}
		}
	})
}

// An id that is no reference is refused with a fix that says what it is.
func TestIDsThatAreNoReferences(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		for id, want := range map[string]string{
			"gate.d-0a18bd2a.5":  "`toolbus why ID` explains it",
			"calls.17":           "as ref of the record with log_seq 17",
			"calls_2.17":         "as ref of the record with log_seq 17",
			"job-crash-00000001": "an idempotency key names no call here",
			"calls.17abc":        envelope.Lookup(envelope.CodeNotFound).Fix,
		} {
			_, refusal := w.d.Result(t.Context(), from("agent"), envelope.CallRef{Ref: id})
			if refusal == nil || !strings.Contains(refusal.Fix, want) {
				t.Errorf("%s: %+v", id, refusal)
			}
		}
	})
}

// Why names what the stored error of an attempt says, and not what its code says of all such attempts.
func TestWhySaysWhatTheOutcomeSays(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		a := w.state().Last()
		e := envelope.NewError(envelope.CodeUnavailable, "the tool could not be started").
			WithCause("main.py: has changed since it was loaded").WithStderr("stray").WithFix("use a new key")
		end := call.Completion{Cause: call.ToolEnded, By: call.ByExecutor, Nonce: "x1", Now: call.At(time.Now()),
			Error: e.Code, Effect: envelope.EffectNone}
		draft := outcome.Draft{Error: e}
		if _, err := outcome.Resolve(t.Context(), w.log, w.state(), a.N, a.Admitted, end, draft, nil); err != nil {
			t.Fatal(err)
		}
		why, refusal := w.d.Why(t.Context(), from("agent"), w.query(1))
		if says := why.Sentence; refusal != nil || strings.Contains(says, "no healthy executor") || !strings.Contains(says,
			"the tool could not be started (main.py: has changed since it was loaded); standard error begins: stray; use a new "+
				"key.") {
			t.Errorf("%s, %v", says, refusal)
		}
	})
}

// A call of a tool whose id is too long for a subject can be asked about, too.
func TestResultOfALongName(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.manifest.ToolID = strings.Repeat("very.long.", 10)
		in := w.request(1, `"echo"`, `"`+w.manifest.ToolID+`"`)
		in.Subject, in.Tool = subjects.Call("t", "agent", w.manifest.ToolID), ""
		w.d.Handle(t.Context(), in)
		synctest.Wait()
		q := envelope.CallRef{Ref: w.state().Ref()}
		if a, refusal := w.d.Result(t.Context(), from("agent"), q); refusal != nil || a.Accepted == nil {
			t.Errorf("%v, %v", a, refusal)
		}
		other := envelope.CallRef{Ref: subjects.Key{Tool: w.manifest.ToolID + "x", ID: w.state().ID}.Ref()}
		if _, refusal := w.d.Result(t.Context(), from("agent"), other); refusal == nil ||
			refusal.Code != envelope.CodeNotFound {
			t.Errorf("of a tool that is not there: %v", refusal)
		}
	})
}

// A cancel that was written without its writer learning of it, or surviving it, ends the run when it is
// asked for again. The answer says that the call had ended before, although its processes still run.
func TestUnsureCancel(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.running = true
		w.ask(1)
		w.log.Lost(func(e call.Event) bool { return e.Kind == call.Decided })
		if _, refusal := w.d.Cancel(t.Context(), from("agent"), w.query(1)); refusal == nil || w.kills != 0 {
			t.Errorf("%v, %d kills", refusal, w.kills)
		}
		w.log.Lost(nil)
		c, refusal := w.d.Cancel(t.Context(), from("agent"), w.query(1))
		if refusal != nil || w.kills != 1 || c.Phase != "decided" || c.Response.Error.Code != envelope.CodeCancelled {
			t.Errorf("%+v, %v, %d kills", c, refusal, w.kills)
		}
		pass(time.Minute)
		w.kills = 0
		if c, _ := w.d.Cancel(t.Context(), from("agent"), w.query(1)); c.Phase != "decided" || w.kills != 0 {
			t.Errorf("told %s, %d kills, after the deadline", c.Phase, w.kills)
		}
	})
}
