package dispatcher_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/flow"
)

// TestNotStarted holds that an answer says that no executor started the call where that is proven, and nowhere else.
func TestNotStarted(t *testing.T) {
	const effectful = call.SideEffectful
	expire := func(w *world, n int) {
		w.askFor(n, 5*time.Second)
		pass(5*time.Second + 50*time.Millisecond)
	}
	for name, c := range map[string]struct {
		class call.EffectClass
		does  func(*world)
		want  bool
	}{
		"the log is full": {effectful, func(w *world) { w.full = true; w.ask(1) }, true},
		"the log takes nothing": {effectful, func(w *world) {
			w.log.Before(func(call.Event) error { return call.ErrFull })
			w.ask(1)
		}, true},
		"too many of its sender": {effectful, func(w *world) {
			w.d.Answers.RejectOverload(w.t.Context(), w.request(1), &flow.QueueFullError{Of: "actor", Wait: time.Second})
		}, true},
		"too late": {effectful, func(w *world) {
			in := w.request(1)
			pass(11 * time.Second)
			w.d.Handle(w.t.Context(), in)
		}, true},
		"no such function": {effectful, func(w *world) { w.ask(1, `"fn":"say"`, `"fn":"sing"`) }, true},
		"its admission may be stored later": {effectful, func(w *world) {
			w.d.CallLog = slow{Log: w.log}
			w.ask(1, short...)
		}, false},
		"the dispatcher failed": {effectful, func(w *world) {
			w.d.Trace.Event = func(_ context.Context, s call.TraceEvent) {
				if s.At == call.TraceAfterAdmit {
					panic("boom")
				}
			}
			w.ask(1)
		}, false},
		"no room to join one that is open": {effectful, func(w *world) { w.ask(2); w.full = true; w.ask(1) }, false},
		"an earlier attempt ran": {effectful, func(w *world) {
			w.ask(2)
			w.claim()
			w.claimedEnds(envelope.CodeUpstream)
			w.full = true
			w.ask(1)
		}, false},
		"nobody took an earlier attempt": {effectful, func(w *world) { expire(w, 2); w.full = true; w.ask(1) }, true},
		"nobody took it":                 {effectful, func(w *world) { expire(w, 1) }, true},
		"it was claimed": {effectful, func(w *world) {
			w.ask(1)
			w.claim()
			pass(11 * time.Second)
		}, false},
		"it ran, and had no effect": {effectful, func(w *world) {
			w.ask(1)
			w.claim()
			w.claimedEnds(envelope.CodeUpstream)
			w.ask(1)
		}, false},
		"idempotent, and it may have run": {call.Idempotent, func(w *world) { expire(w, 1) }, false},
		"pure, and being handed out":      {call.Pure, func(w *world) { expire(w, 1) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			staffed(t, c.class, func(t *testing.T, w *world, _ *pool) {
				c.does(w)
				synctest.Wait()
				if r := w.outcome(1); r.Status == envelope.Success || r.Provenance.NotStarted != c.want {
					t.Errorf("not started: %t, %s, %+v", r.Provenance.NotStarted, r.Error, r.Provenance)
				}
			})
		})
	}
}

// TestNotStartedOfIdempotent holds that nobody started what no executor lived to take.
func TestNotStartedOfIdempotent(t *testing.T) {
	staffed(t, call.Idempotent, func(t *testing.T, w *world, p *pool) {
		p.set(func(p *pool) { p.absent = time.Now().Add(-time.Second) })
		w.askFor(1, 5*time.Second)
		pass(5*time.Second + 50*time.Millisecond)
		if r := w.outcome(1); !r.Provenance.NotStarted || r.Error.Code != envelope.CodeUnavailable {
			t.Errorf("%s, %+v", r.Error, r.Provenance)
		}
	})
}

// TestNotStartedOfUnproven holds that a refusal for which no log was read speaks of its own copy of the request alone:
// one that stands would speak of all of them.
func TestNotStartedOfUnproven(t *testing.T) {
	bubble(t, call.SideEffectful, func(t *testing.T, w *world) {
		s := guarded(w)
		ended := someAgent()
		ended.Expires = ended.Issued
		in := w.request(1)
		in.Token = mint(w, s, ended)
		w.d.Handle(t.Context(), in)
		w.d.Handle(t.Context(), w.request(2)) // without a token
		synctest.Wait()
		if p := w.outcome(1).Provenance; !p.NotStarted || p.Final {
			t.Errorf("expired: %+v", p)
		}
		if p := w.outcome(2).Provenance; p.NotStarted || !p.Final {
			t.Errorf("without a token: %+v", p)
		}
	})
}

// claimedEnds ends the newest attempt as the executor does that holds its claim: the tool says that nothing was done.
func (w *world) claimedEnds(code envelope.Code) {
	w.t.Helper()
	a := w.state().Last()
	w.endsAs(call.Completion{Cause: call.ToolEnded, By: call.ByExecutor, Nonce: a.Claim.Nonce + ".x", Claim: a.Claim.Nonce,
		Now: call.At(time.Now()), Error: code, Effect: envelope.EffectNone})
}
