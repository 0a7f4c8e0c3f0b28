package pause

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/chaos/proxy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/kv"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The holes that each rule of the protocol closes. Each test plays the counterexample twice: as the protocol is, and
// with its rule taken away by a part that does without it. The first keeps every promise; in the
// second the checker, or the test, finds what the rule is for.

// both runs play with the rule and without it, each in a world of its own.
func both(t *testing.T, toolID string, play func(t *testing.T, w *world, rule bool)) {
	t.Helper()
	b := newBase(t)
	t.Run("rule", func(t *testing.T) {
		w := b.world(t, toolID)
		play(t, w, true)
		w.judge()
	})
	t.Run("without", func(t *testing.T) { play(t, b.world(t, toolID), false) })
}

// decideBlindly is a log on which a decision that lost the compare-and-set is written all the same:
// what a claim and an outcome on different keys amount to.
type decideBlindly struct{ outcome.Log }

func (l decideBlindly) Write(ctx context.Context, e call.Event, body []byte) (call.State, error) {
	s, err := l.Log.Write(ctx, e, body)
	var moved *call.ConflictError
	if e.Kind != call.Decided || !errors.As(err, &moved) {
		return s, err
	}
	a, _ := e.State.Attempt(e.Attempt)
	next := moved.State
	next.Attempts = append([]call.Attempt(nil), next.Attempts...)
	next.Attempts[len(next.Attempts)-1].Decision = a.Decision
	return l.Log.Write(ctx, call.Event{Kind: e.Kind, Attempt: e.Attempt, Nonce: e.Nonce, State: next}, body)
}

// unbound is a log whose dispatchers do not tell readers to hold claims and decisions against the log before them.
type unbound struct{ outcome.Log }

func (l unbound) Write(ctx context.Context, e call.Event, body []byte) (call.State, error) {
	e.State.Lookup = ""
	return l.Log.Write(ctx, e, body)
}

// C1: the guardian has read "no claim" when the executor claims and runs. The claim is a step of
// the same log, so the guardian's decision is of yesterday, and it has to look again.
func TestC1ClaimAndOutcomeAreOneLog(t *testing.T) {
	both(t, "chaos.mail", func(t *testing.T, w *world, rule bool) {
		var log outcome.Log
		d := w.dispatcher("d", nil, nil)
		if !rule {
			log, d.CallLog = decideBlindly{w.log}, unbound{d.CallLog} // of another log readers believe no such decision
		}
		w.end(w.ask(d, callA, 1, time.Minute).done, "the dispatcher")
		claiming, deciding := stopAt("before-claim"), stopAt("before-timeout")
		m, _ := w.message(1)
		e1 := w.executor("e1", claiming, nil, nil)
		ran := w.hand(e1, m)
		w.wait(claiming)
		guarded := w.guard(deciding, log)
		w.wait(deciding) // it has read that there is no claim
		claiming.dies <- false
		w.end(ran, "the executor")
		deciding.dies <- false
		w.end(guarded, "the guardian")

		w.end(w.ask(d, callB, 1, time.Minute).done, "the dispatcher")
		if w.state().Last().Open() {
			w.work(w.executor("e2", nil, nil, nil), 1)
		}
		if !rule {
			w.convict("log")
		}
	})
}

// C1 again, as it was found: the guardian decides between the claim and the end of the run.
func TestC1NoSecondEffectAfterAFalseNone(t *testing.T) {
	both(t, "chaos.mail", func(t *testing.T, w *world, rule bool) {
		var log outcome.Log
		d := w.dispatcher("d", nil, nil)
		if !rule {
			log, d.CallLog = decideBlindly{w.log}, unbound{d.CallLog} // of another log readers believe no such decision
		}
		w.end(w.ask(d, callA, 1, time.Minute).done, "the dispatcher")
		claiming, running, deciding := stopAt("before-claim"), stopAt("in-tool"), stopAt("before-timeout")
		m, _ := w.message(1)
		e1 := w.executor("e1", claiming, nil, worker{w, running})
		ran := w.hand(e1, m)
		w.wait(claiming)
		guarded := w.guard(deciding, log)
		w.wait(deciding)
		claiming.dies <- false
		w.wait(running)
		deciding.dies <- false
		w.end(guarded, "the guardian")
		w.end(w.ask(d, callB, 1, time.Minute).done, "the dispatcher")
		if w.state().Last().Open() {
			w.work(w.executor("e2", nil, nil, nil), 1)
		}
		running.dies <- false
		w.end(ran, "the executor")
		if !rule {
			w.convict("P3 effect")
			w.convict("P7 honest")
		}
	})
}

// anyInput is a log whose states do not tell with which input they began.
type anyInput struct {
	outcome.Log
	fingerprint func() string
}

func (l anyInput) Write(ctx context.Context, e call.Event, body []byte) (call.State, error) {
	s, err := l.Log.Write(ctx, e, body)
	var moved *call.ConflictError
	if errors.As(err, &moved) {
		moved.State.Fingerprint = l.fingerprint()
	}
	return s, err
}

// C2: two dispatchers find the log empty, for two inputs under one key. The second finds the
// first one's fingerprint when its admission fails.
func TestC2AnotherInputDoesNotJoin(t *testing.T) {
	both(t, "chaos.put", func(t *testing.T, w *world, rule bool) {
		first, second := stopAt("before-admit"), stopAt("before-admit")
		d1 := w.dispatcher("d1", first, nil)
		a := w.ask(d1, callA, 1, time.Minute)
		w.wait(first)
		var log outcome.Log
		var b *asked
		if !rule {
			log = anyInput{w.log, func() string { return b.Fingerprint }}
		}
		d2 := w.dispatcher("d2", second, log)
		b = w.ask(d2, callB, 2, time.Minute)
		w.wait(second)
		first.dies <- false
		w.end(a.done, "the first dispatcher")
		w.work(w.executor("e", nil, nil, nil), 1)
		second.dies <- false
		r := w.answer(b)
		if !rule {
			w.convict("P3 input")
			return
		}
		if r == nil || r.Error == nil || r.Error.Code != envelope.CodeKeyReused {
			t.Errorf("another input is answered with %+v", r)
		}
	})
}

// lastAttempt is a log that keeps only the newest attempt of a call.
type lastAttempt struct{ outcome.Log }

func (l lastAttempt) Write(ctx context.Context, e call.Event, body []byte) (call.State, error) {
	s, err := l.Log.Write(ctx, e, body)
	var moved *call.ConflictError
	if errors.As(err, &moved) {
		moved.State = forget(moved.State)
	}
	return s, err
}

func (l lastAttempt) Read(ctx context.Context, tool, id string) (call.Entry, error) {
	e, err := l.Log.Read(ctx, tool, id)
	e.State = forget(e.State)
	return e, err
}

func forget(s call.State) call.State {
	if len(s.Attempts) > 1 {
		s.Attempts = s.Attempts[len(s.Attempts)-1:]
	}
	return s
}

// C3: A was told that it may try again, B did, and A asks anew under its old call id. It is bound
// to its own attempt for good.
func TestC3ACallKeepsItsAttempt(t *testing.T) {
	both(t, "chaos.put", func(t *testing.T, w *world, rule bool) {
		d, e := w.dispatcher("d", nil, nil), w.executor("e", nil, nil, nil)
		w.end(w.ask(d, callA, 1, time.Minute).done, "the dispatcher")
		w.end(w.guard(nil, nil), "the guardian")
		w.end(w.ask(w.dispatcher("d2", nil, nil), callB, 1, time.Minute).done, "the dispatcher")
		w.work(e, 1)
		var log outcome.Log
		if !rule {
			log = lastAttempt{w.log}
		}
		a := w.ask(w.dispatcher("d3", nil, log), callA, 1, time.Minute)
		r := w.answer(a)
		if !rule {
			w.convict("P1 outcome")
			return
		}
		if r == nil || r.Provenance.Attempt != 1 || r.Error.Code != envelope.CodeTimeout {
			t.Errorf("asked again, it is told %+v", r)
		}
	})
}

// asAdmitted is a log on which everybody keeps to the sequence that a work message carried.
type asAdmitted struct{ outcome.Log }

func (l asAdmitted) Write(ctx context.Context, e call.Event, body []byte) (call.State, error) {
	s, err := l.Log.Write(ctx, e, body)
	var moved *call.ConflictError
	if errors.As(err, &moved) {
		return s, errors.New("the log has moved, and the outcome is not there")
	}
	return s, err
}

func (l asAdmitted) Read(ctx context.Context, tool, id string) (call.Entry, error) {
	e, err := l.Log.Read(ctx, tool, id)
	if err != nil || e.State.Empty() {
		return e, err
	}
	return l.Get(ctx, e.State.At(e.State.Last().Admitted))
}

// C4: a join comes between the admission and the claim, so the sequence in the message is of
// yesterday for everybody who wants to decide. They look again.
func TestC4ADeciderLooksAgain(t *testing.T) {
	both(t, "chaos.mail", func(t *testing.T, w *world, rule bool) {
		d := w.dispatcher("d", nil, nil)
		w.end(w.ask(d, callA, 1, time.Minute).done, "the dispatcher")
		m, _ := w.message(1)
		w.end(w.ask(d, callB, 1, time.Minute).done, "the dispatcher")
		var log outcome.Log
		if !rule {
			log = asAdmitted{w.log}
		}
		e := w.executor("e", nil, log, nil)
		w.end(w.hand(e, m), "the executor")
		for n := 2; n < 5 && w.state().Last().Open(); n++ {
			m, _ := w.message(n)
			w.end(w.hand(e, m), "the executor")
		}
		if !rule {
			w.convict("P5 kept")
		}
	})
}

// runsWhenAbsent takes "not committed" for leave to run.
type runsWhenAbsent struct{ worker }

func (a runsWhenAbsent) Lookup(ctx context.Context, m *tool.Manifest, inv tool.Invocation) (tool.Result, bool, error) {
	if r, found, err := a.worker.Lookup(ctx, m, inv); found || err != nil {
		return r, found, err
	}
	r, err := a.Execute(ctx, m, inv, silent{})
	return r, err == nil, err
}

// C7: the claimer is frozen before its effect, and the tool says that nothing is committed. That
// is true, and says nothing of what will be.
func TestC7AbsentIsNoLeaveToRun(t *testing.T) {
	both(t, "chaos.pay", func(t *testing.T, w *world, rule bool) {
		w.end(w.ask(w.dispatcher("d", nil, nil), callA, 1, time.Minute).done, "the dispatcher")
		frozen := stopAt("in-tool")
		m, _ := w.message(1)
		ran := w.hand(w.executor("e1", frozen, nil, nil), m)
		w.wait(frozen)
		w.dead("e1")
		var adapter tool.Adapter
		if !rule {
			adapter = runsWhenAbsent{worker{w, nil}}
		}
		w.work(w.executor("e2", nil, nil, adapter), 2)
		if last := w.state().Last(); rule && (last.Decision == nil || last.Decision.Code != envelope.CodeToolUnknownState) {
			t.Errorf("decided %+v", last.Decision)
		}
		frozen.dies <- false
		w.end(ran, "the executor")
		if !rule {
			w.convict("P3 effect")
		}
	})
}

// nobodys is a log that does not know its own writes again: after a lost acknowledgement, what is
// there is taken for somebody else's.
type nobodys struct{ outcome.Log }

func (l nobodys) Write(ctx context.Context, e call.Event, body []byte) (call.State, error) {
	s, err := l.Log.Write(ctx, e, body)
	if err != nil || e.Kind != call.Claimed {
		return s, err
	}
	next := s
	next.Attempts = append([]call.Attempt(nil), s.Attempts...)
	claim := *next.Last().Claim
	claim.Nonce = "somebody's"
	next.Attempts[len(next.Attempts)-1].Claim = &claim
	return call.State{}, &call.ConflictError{State: next}
}

// Every write is applied, and no acknowledgement comes. The retry is told that the log has
// moved; the nonce says that it was oneself who moved it.
func TestOneKnowsOnesOwnWrite(t *testing.T) {
	both(t, "chaos.mail", func(t *testing.T, w *world, rule bool) {
		var log outcome.Log = lossy(t, w)
		if !rule {
			log = nobodys{w.log}
		}
		d := w.dispatcher("d", nil, log)
		w.end(w.ask(d, callA, 1, time.Minute).done, "the dispatcher")
		w.end(w.ask(d, callB, 1, time.Minute).done, "the dispatcher")
		e := w.executor("e", nil, log, nil)
		w.work(e, 1)
		w.log.Forget() // unlike this one, the logs of executors do not know the newest event of each call
		w.work(e, 2)
		decision := w.state().Last().Decision
		switch {
		case rule && (decision == nil || decision.Status != envelope.Success):
			t.Errorf("decided %+v", decision)
		case rule && len(w.late) > 0:
			t.Errorf("the winner noted a late result: %v", w.late)
		case !rule && (decision == nil || decision.Code != envelope.CodeToolUnknownState):
			t.Errorf("an executor that does not know its claim again ran, and decided %+v", decision)
		}
	})
}

// lossy returns the log over a line on which every acknowledgement is lost.
func lossy(t *testing.T, w *world) *kv.Log {
	t.Helper()
	at, err := url.Parse(w.url)
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.Listen(at.Host, 1)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(p.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		nc.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	log, err := kv.OpenLog(t.Context(), js, kv.LogOptions{Answer: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	p.Set(proxy.Trouble{proxy.PubAck: {Drop: 1}})
	return log
}

// The log of a call is gone, the same key has been admitted anew, with another input, and the
// old work message comes back. It is not of this admission.
func TestAnOldMessageIsOfAnOldAdmission(t *testing.T) {
	for _, id := range []string{"chaos.mail", "chaos.put"} {
		t.Run(id, func(t *testing.T) {
			both(t, id, func(t *testing.T, w *world, rule bool) {
				d := w.dispatcher("d", nil, nil)
				w.end(w.ask(d, callA, 1, time.Minute).done, "the dispatcher")
				old, _ := w.message(2)
				w.expire()
				w.asks = nil
				w.end(w.ask(w.dispatcher("d2", nil, nil), callB, 2, time.Minute).done, "the dispatcher")
				if !rule { // a message that fits whatever admission there is
					old.Entry.State = w.state()
				}
				w.end(w.hand(w.executor("e", nil, nil, nil), old), "the executor")
				w.work(w.executor("e2", nil, nil, nil), 1)
				a := w.ask(w.dispatcher("d3", nil, nil), callB, 2, time.Minute)
				w.end(a.done, "the dispatcher")
				if !rule {
					w.convict("P3 input")
				}
			})
		})
	}
}

// The consumer is made anew: it delivers everything as if for the first time, also what
// is over, and what somebody runs. What is older than its consumer is taken for a second delivery
// (package workqueue), so it is looked up before it runs, and claimed.
func TestAFirstDeliveryMayBeNone(t *testing.T) {
	b := newBase(t)
	t.Run("another admission", func(t *testing.T) {
		w := b.world(t, "chaos.put")
		e := w.executor("e", nil, nil, nil)
		w.end(w.ask(w.dispatcher("d", nil, nil), callA, 1, time.Minute).done, "the dispatcher")
		old, _ := w.message(1)
		w.expire()
		w.asks = nil
		w.end(w.ask(w.dispatcher("d2", nil, nil), callB, 2, time.Minute).done, "the dispatcher")
		old.Deliveries = 2
		w.end(w.hand(e, old), "the executor")
		if len(w.effects) > 0 {
			t.Errorf("it ran: %+v", w.effects)
		}
		w.work(e, 1)
		w.judge()
	})
	t.Run("a run elsewhere", func(t *testing.T) {
		w := b.world(t, "chaos.put")
		running := stopAt("in-tool")
		e1, e2 := w.executor("e1", running, nil, nil), w.executor("e2", nil, nil, nil)
		w.end(w.ask(w.dispatcher("d", nil, nil), callA, 1, time.Minute).done, "the dispatcher")
		m, _ := w.message(1)
		ran := w.hand(e1, m)
		w.wait(running)
		w.work(e2, 2)
		running.dies <- false
		w.end(ran, "the executor")
		w.judge()
	})
	t.Run("a run elsewhere, after a reconnection", func(t *testing.T) {
		w := b.world(t, "chaos.put")
		running := stopAt("in-tool")
		e1, e2 := w.executor("e1", running, nil, nil), w.executor("e2", nil, nil, nil)
		w.end(w.ask(w.dispatcher("d", nil, nil), callA, 1, time.Minute).done, "the dispatcher")
		m, _ := w.message(1)
		ran := w.hand(e1, m)
		w.wait(running)
		e2.ControlReady() // the server has crashed, and may have forgotten what it delivered
		w.work(e2, 1)
		running.dies <- false
		w.end(ran, "the executor")
		w.judge()
	})
}

// expire removes the log of the call, as its expiry would.
func (w *world) expire() {
	w.t.Helper()
	stream, err := w.js.Stream(w.t.Context(), subjects.Partition(0).Stream())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range w.entries() {
		if err := stream.DeleteMsg(w.t.Context(), e.State.Seq); err != nil {
			w.t.Fatal(err)
		}
	}
	w.log.Forget() // their time is over
}

// The executor runs the call, and the work is delivered again because its signs of life were
// lost. A claim of somebody who lives is left to him.
func TestALiveClaimIsNotTakenOver(t *testing.T) {
	both(t, "chaos.mail", func(t *testing.T, w *world, rule bool) {
		w.end(w.ask(w.dispatcher("d", nil, nil), callA, 1, time.Minute).done, "the dispatcher")
		running := stopAt("in-tool")
		m, _ := w.message(1)
		ran := w.hand(w.executor("e1", running, nil, nil), m)
		w.wait(running)
		if !rule { // as if everybody who is not heard of were gone
			w.dead("e1")
		}
		w.work(w.executor("e2", nil, nil, nil), 2)
		running.dies <- false
		w.end(ran, "the executor")
		d := w.state().Last().Decision
		switch {
		case rule && (d == nil || d.Status != envelope.Success):
			t.Errorf("decided %+v", d)
		case !rule && (d == nil || d.Code != envelope.CodeToolUnknownState || len(w.late) != 1):
			t.Errorf("without the rule: decided %+v, late results %v", d, w.late)
		}
	})
}
