package dispatcher_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Whoever finds no room to join is told so, at the high-water mark, too, which leaves room for decisions.
// Whoever has joined waits on.
func TestNoRoomToJoin(t *testing.T) {
	for name, fill := range map[string]func(*world){
		"high water": func(w *world) { w.full = true },
		"full":       func(w *world) { w.log.Before(func(call.Event) error { return call.ErrFull }) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Pure, func(t *testing.T, w *world) {
				w.ask(1)
				w.ask(2)
				fill(w)
				w.ask(3)
				w.ask(2)
				pass(time.Second)
				if r := w.outcome(3); r.Error == nil || r.Error.Code != envelope.CodeStoreFull ||
					r.Error.Details.RetryAfterMS == 0 {
					t.Errorf("got %+v", r)
				}
				w.log.Before(nil)
				w.decide("")
				if r := w.outcome(2); r.Status != envelope.Success {
					t.Errorf("the joiner got %+v", r)
				}
				for _, e := range w.log.Entries() {
					if e.State.Last().Has(uuid(3)) {
						t.Error("joined and refused")
					}
				}
			})
		})
	}
}

// A refusal says what is known of the effect of the call, of which others may have had an attempt.
func TestEffectOfARefusal(t *testing.T) {
	for class, unknown := range map[call.EffectClass]bool{call.Pure: false, call.Idempotent: true,
		call.SideEffectful: true} {
		bubble(t, class, func(t *testing.T, w *world) {
			want := envelope.EffectNone
			if unknown {
				want = envelope.EffectUnknown
			}
			w.ask(1)
			w.full = true
			w.ask(2)
			if e := w.outcome(2).Error; e.Code != envelope.CodeStoreFull || e.Details.Effect != want {
				t.Errorf("%s, while it runs: %s, effect %s", class, e.Code, e.Details.Effect)
			}
			w.ask(3, `{"n":1}`, `{"n":2}`)
			if e := w.outcome(3).Error; e.Code != envelope.CodeKeyReused || e.Details.Effect != envelope.EffectNone {
				t.Errorf("%s, another input: %s, effect %s", class, e.Code, e.Details.Effect)
			}
			w.ask(4, "key-0123456789abcdef", "another-0123456789abcdef")
			if e := w.outcome(4).Error; e.Code != envelope.CodeStoreFull || e.Details.Effect != envelope.EffectNone {
				t.Errorf("%s, another key: %s, effect %s", class, e.Code, e.Details.Effect)
			}
		})
	}
}

// An attempt that had no effect leaves none to be told of.
func TestEffectOfARefusedRetry(t *testing.T) {
	for code, want := range map[envelope.Code]envelope.Effect{
		envelope.CodeUpstream: envelope.EffectNone, envelope.CodeTimeout: envelope.EffectUnknown,
	} {
		bubble(t, call.Idempotent, func(t *testing.T, w *world) {
			w.ask(1)
			if code == envelope.CodeTimeout {
				pass(11 * time.Second)
			} else {
				w.decide(code)
			}
			w.full = true
			w.ask(2)
			if e := w.outcome(2).Error; e.Code != envelope.CodeStoreFull || e.Details.Effect != want {
				t.Errorf("after %s: %s, effect %s", code, e.Code, e.Details.Effect)
			}
		})
	}
}

// Requests for one key that arrive while the log does not answer take bounded memory. Whoever found no room
// asks again.
func TestArrivalsAreBounded(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		open := make(chan struct{})
		w.log.Before(func(call.Event) error { <-open; return nil })
		go w.d.Handle(t.Context(), w.request(0))
		synctest.Wait()
		const callers = 250
		space := strings.Repeat(" ", 200<<10)
		for n := range callers {
			in := w.request(1 + n)
			in.Body = append(in.Body, space...)
			w.d.Handle(t.Context(), in)
		}
		close(open)
		pass(time.Second)
		accepted := 0
		for n := range callers {
			accepted += w.acceptedBy(1 + n)
		}
		if most := 32 << 20 / len(space); accepted == 0 || accepted > most {
			t.Errorf("%d of %d were kept, of at most %d", accepted, callers, most)
		}
		w.ask(callers)
		pass(time.Second)
		if w.acceptedBy(callers) != 1 {
			t.Error("the caller that asked again was not accepted")
		}
	})
}

// A joiner who is another actor is told of the call under its own call id, never under the owner's,
// with which it could ask in the owner's name.
func TestJoinerIsNotToldTheOwnersCallID(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		global := []string{`"key-0123456789abcdef"`, `"key-0123456789abcdef","idempotency_scope":"global"`}
		w.ask(1, global...)
		in := w.request(2, append(global, `"actor_id":"agent"`, `"actor_id":"other"`)...)
		in.Subject, in.From.Actor = "tb.call.t.other.echo", "other"
		w.d.Handle(t.Context(), in)
		q := envelope.CallRef{Ref: w.state().Ref(), CallID: uuid(2)}
		if a, refusal := w.d.Result(t.Context(), from("other"), q); refusal != nil || a.Accepted.CallID != uuid(2) ||
			!a.Accepted.Joined {
			t.Errorf("the joiner is told %+v, %v", a, refusal)
		}
		q.CallID = ""
		if a, refusal := w.d.Result(t.Context(), from("agent"), q); refusal != nil || a.Accepted.CallID != uuid(1) ||
			a.Accepted.Joined {
			t.Errorf("the owner is told %+v, %v", a, refusal)
		}
		w.decide(envelope.CodeUpstream)
		in = w.request(3, append(global, `"actor_id":"agent"`, `"actor_id":"other"`)...)
		in.Subject, in.From.Actor = "tb.call.t.other.echo", "other"
		w.d.Handle(t.Context(), in)
		if a, refusal := w.d.Result(t.Context(), from("agent"), q); refusal != nil || a.Accepted.Attempt != 2 ||
			a.Accepted.CallID != uuid(1) {
			t.Errorf("the owner of the attempt before is told %+v, %v", a, refusal)
		}
	})
}

// The outcome comes between a join and the wait for it: the joiner is told at once.
func TestDecidedWhileJoining(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		decide := sync.OnceFunc(func() { w.decide("") })
		w.log.Watch(func(e call.Entry) {
			if e.Kind == call.Joined {
				decide()
			}
		})
		w.ask(2)
		pass(100 * time.Millisecond)
		if r := w.outcome(2); r.Status != envelope.Success || r.CallID != uuid(2) {
			t.Errorf("%+v", r)
		}
	})
}

// A dispatcher that has missed the outcome gathers joiners, and one who asks again lets it find
// out meanwhile: nothing is written to a call that is over, and everybody has its outcome.
func TestJoinersOfACallThatIsOver(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		behind := w.dispatcher("d2", true) // it does not follow the log
		behind.Handle(t.Context(), w.request(1))
		behind.Handle(t.Context(), w.request(2))
		w.decide("")
		go behind.Handle(t.Context(), w.request(3))
		<-time.After(time.Millisecond) // it lingers
		behind.Handle(t.Context(), w.request(1))
		synctest.Wait()
		pass(time.Second)
		entries := w.log.Entries()
		if last := entries[len(entries)-1]; last.Kind != call.Decided {
			t.Errorf("after the outcome came %s", last.Kind)
		}
		w.outcome(1)
		w.outcome(3)
	})
}

// Callers that share a call with its owner are on record: those that join before they are bound, those that are told
// its outcome afterwards.
func TestSharingIsOnRecord(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.ask(2)
		w.ask(1) // and 2 again: they are bound
		w.ask(2)
		pass(time.Second)
		w.decide("")
		w.ask(3)
		w.ask(2)
		if want := []string{uuid(2), uuid(3)}; !slices.Equal(w.allowed, want) {
			t.Errorf("on record are %v, not %v", w.allowed, want)
		}
	})
}

// Nobody waits for the record of a replay, nor do callers that come after it.
func TestReplayDoesNotWaitForItsRecord(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.ask(1)
		w.decide("")
		w.gateHangs = true
		for n := 2; n < 1500; n++ { // more than there is room for
			w.ask(n)
			if r := w.outcome(n); r.Status != envelope.Success {
				t.Fatalf("%d: %+v", n, r)
			}
		}
	})
}

// Nobody joins a call unrecorded; callers that ask for its outcome get it.
func TestSharingWithoutRecord(t *testing.T) {
	for name, err := range map[string]error{"down": errors.New("audit is down"), "full": audit.ErrRefused} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Pure, func(t *testing.T, w *world) {
				w.ask(1)
				w.gateErr = err
				w.ask(2)
				pass(time.Second)
				if w.state().Last().Has(uuid(2)) || len(w.accepted[uuid(2)]) > 0 {
					t.Error("joined without a record")
				}
				w.decide("")
				w.ask(3)
				if r := w.outcome(3); r.Status != envelope.Success {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}
