package dispatcher_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/calltest"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// short makes a request's timeout one second.
var short = []string{`"timeout_ms":10000`, `"timeout_ms":1000`}

// wantLate says that caller n was refused because its deadline had passed, and what of its effect is known.
func (w *world) wantLate(n int, effect envelope.Effect) {
	w.t.Helper()
	r := w.outcome(n)
	if r.Error == nil || r.Error.Code != envelope.CodeTimeout || r.Error.Details.Effect != effect {
		w.t.Errorf("%d was told %+v, want effect %s", n, r.Error, effect)
	}
	if r.Provenance.Final || r.Provenance.Attempt != 0 || r.Provenance.AuditEventID == "" {
		w.t.Errorf("%d: final %t, attempt %d, audit id %q", n, r.Provenance.Final, r.Provenance.Attempt,
			r.Provenance.AuditEventID)
	}
}

// A request that waits for its turn at the log until its deadline has passed opens no attempt, and joins none.
func TestLateInTheLine(t *testing.T) {
	for name, stored := range map[string]bool{"nothing is admitted": false, "an attempt is open": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Idempotent, func(t *testing.T, w *world) {
				release := make(chan error)
				w.log.Before(func(call.Event) error { return <-release })
				go w.d.Handle(t.Context(), w.request(1))
				synctest.Wait()
				go w.d.Handle(t.Context(), w.request(2, short...)) // waits in the line
				pass(2 * time.Second)
				w.log.Before(nil)
				effect := envelope.EffectNone
				if stored {
					effect = envelope.EffectUnknown
					release <- nil
				} else {
					release <- call.ErrUnsure
				}
				pass(time.Second)
				w.wantLate(2, effect)
				if s := w.state(); stored == s.Empty() || len(s.Attempts) > 1 || stored && s.Last().Has(uuid(2)) {
					t.Errorf("the log is %+v", s)
				}
			})
		})
	}
}

// slow is a log that answers no admission before its writer gives up, as a server without a leader.
type slow struct {
	*calltest.Log
	stores bool // what is written is in the log all the same
}

func (s slow) Write(ctx context.Context, e call.Event, body []byte) (call.State, error) {
	if s.stores || e.Kind != call.Requested {
		if after, err := s.Log.Write(ctx, e, body); err != nil || e.Kind != call.Requested {
			return after, err
		}
	}
	ctx, cancel := context.WithDeadline(ctx, e.Until)
	defer cancel()
	<-ctx.Done()
	return call.State{}, fmt.Errorf("%w: %w", call.ErrUnsure, context.Cause(ctx))
}

// A log that answers no write keeps nobody waiting for longer than the caller has, and uses up nothing of the key.
// What was not answered may still be stored later, so only of a call without effects is it known that there was none.
func TestLateWrite(t *testing.T) {
	for class, effect := range map[call.EffectClass]envelope.Effect{
		call.Pure: envelope.EffectNone, call.Idempotent: envelope.EffectUnknown,
	} {
		bubble(t, class, func(t *testing.T, w *world) {
			w.d.CallLog = slow{Log: w.log}
			for n := range 2 * call.MaxAttempts {
				began := time.Now()
				w.ask(n, short...)
				if took := time.Since(began); took > 1100*time.Millisecond {
					t.Errorf("answered after %s", took)
				}
				w.wantLate(n, effect)
			}
			w.d.CallLog = w.log
			w.ask(50)
			if w.acceptedBy(50) != 1 || w.state().Last().N != 1 {
				t.Errorf("accepted %d times, attempt %d", w.acceptedBy(50), w.state().Last().N)
			}
		})
	}
}

// A write that was stored without an answer is found at the deadline: the call has an outcome.
func TestLateAnswerOfAWrite(t *testing.T) {
	bubble(t, call.Pure, func(t *testing.T, w *world) {
		w.d.CallLog = slow{Log: w.log, stores: true}
		go w.d.Handle(t.Context(), w.request(1, short...))
		pass(2 * time.Second)
		for _, r := range w.told(1) { // by whoever decides it, and by whoever finds it
			if r.Error.Code != envelope.CodeTimeout || !r.Provenance.Final || r.Provenance.Attempt != 1 {
				t.Errorf("%+v, %+v", r.Error, r.Provenance)
			}
		}
		if len(w.told(1)) == 0 {
			t.Error("told nothing")
		}
	})
}

// ended ends the newest attempt with success and an effect.
func (w *world) ended() {
	w.t.Helper()
	a := w.state().Last()
	end := call.Completion{Cause: call.ToolEnded, By: call.ByExecutor, Nonce: "x", Now: call.At(time.Now()),
		Effect: envelope.EffectApplied}
	d := outcome.Draft{Output: []byte(`{"n":1}`)}
	if _, err := outcome.Resolve(w.t.Context(), w.log, w.state(), a.N, a.Admitted, end, d, nil); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// due makes a request's deadline one that is so far from now.
func due(from time.Duration) []string {
	return []string{fmt.Sprintf(`"deadline_unix_ms":%d`, time.Now().Add(10*time.Second).UnixMilli()),
		fmt.Sprintf(`"deadline_unix_ms":%d`, time.Now().Add(from).UnixMilli())}
}

// A request may be so late that the event of its attempt has expired, as all are for which the server's clock was set
// forward. Then an empty log does not prove that the call had no effect.
func TestLateForAnEmptyLog(t *testing.T) {
	for class, effect := range map[call.EffectClass]envelope.Effect{
		call.Pure: envelope.EffectNone, call.Idempotent: envelope.EffectUnknown, call.SideEffectful: envelope.EffectUnknown,
	} {
		bubble(t, class, func(t *testing.T, w *world) {
			w.ask(1, due(-call.DefaultExpiry.Grace)...)
			w.wantLate(1, effect)
			if w.outcome(1).Provenance.NotStarted {
				t.Errorf("%s: said not to be started", class)
			}
			w.ask(2, due(-call.DefaultExpiry.Grace/2)...)
			w.wantLate(2, envelope.EffectNone)
			if !w.outcome(2).Provenance.NotStarted {
				t.Errorf("%s: not said to be unstarted", class)
			}
		})
	}
}

// A denial says of the effect what the log of the key proves, and not what the denial itself had.
func TestEffectOfADenial(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*world)
		want   envelope.Effect
	}{
		"nothing before": {func(*world) {}, envelope.EffectNone},
		"it runs":        {func(w *world) { w.ask(1) }, envelope.EffectUnknown},
		"it failed":      {func(w *world) { w.ask(1); w.decide(envelope.CodeUpstream) }, envelope.EffectNone},
		"it timed out":   {func(w *world) { w.ask(1); pass(11 * time.Second) }, envelope.EffectUnknown},
		"it succeeded":   {func(w *world) { w.ask(1); w.ended() }, envelope.EffectApplied},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, call.Idempotent, func(t *testing.T, w *world) {
				c.before(w)
				expired := due(-time.Second)
				other := append([]string{`{"n":1}`, `{"n":2}`}, expired...)
				w.ask(2, expired...)
				w.wantLate(2, c.want)
				w.ask(3, other...) // another input under the key is another call
				w.wantLate(3, envelope.EffectNone)
				w.manifest.Status = tool.StatusDisabled
				w.ask(4)
				if r := w.outcome(4); r.Error.Code != envelope.CodeToolDisabled || r.Error.Details.Effect != c.want ||
					!r.Provenance.Final {
					t.Errorf("disabled: %+v, final %t", r.Error, r.Provenance.Final)
				}
			})
		})
	}
}

// A range that the served version does not fit, under the key of an earlier call, is refused with the way to the
// outcome of that call. Under another key it is refused without.
func TestVersionOfAnEarlierCall(t *testing.T) {
	bubble(t, call.Idempotent, func(t *testing.T, w *world) {
		w.ask(1)
		w.ended()
		w.manifest.Semver = "2.0.0"
		w.ask(2)
		w.ask(3, "key-0123456789abcdef", "key-0123456789abcdeg")
		const way = "the key has a call of version 1.2.3: `toolbus result echo."
		for n := 2; n < 4; n++ {
			if e := w.outcome(n).Error; e.Code != envelope.CodeVersion || strings.HasPrefix(e.Cause, way) != (n == 2) {
				t.Errorf("%d: %+v", n, e)
			}
		}
	})
}
