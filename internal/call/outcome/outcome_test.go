package outcome_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/calltest"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
)

// admit opens the next attempt of the call id, as a dispatcher would.
func admit(t *testing.T, log *calltest.Log, id, callID string) call.Entry {
	t.Helper()
	return admitWith(t, log, id, callID, "", call.Pure)
}

// admitWith is admit for a call of a class, with another body than a dispatcher would write if other is not empty.
func admitWith(t *testing.T, log *calltest.Log, id, callID, other string, class call.EffectClass) call.Entry {
	t.Helper()
	last, _ := log.Read(t.Context(), "echo", id)
	now := time.Now()
	v := call.Admit(last.State, call.AdmitRequest{
		Owner: call.Owner{CallID: callID, Actor: "a"}, Fingerprint: "fp", Nonce: "q-" + callID,
		Pinned: call.Pinned{Tool: "echo", ID: id, Fn: "say", Version: "1.0.0", Class: class, Fingerprint: "fp",
			Tenant: "t"},
		Deadline: call.At(now.Add(time.Minute)), Now: call.At(now),
	})
	earlier, err := last.Outcomes()
	if err != nil || v.Do != call.Write {
		t.Fatalf("admit %s: %v, %v", callID, v.Do, err)
	}
	body, err := call.RequestBody{Request: []byte(`{}`), Earlier: earlier}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if other != "" {
		body = []byte(other)
	}
	if _, err := log.Write(t.Context(), v.Event, body); err != nil {
		t.Fatal(err)
	}
	entry, _ := log.Read(t.Context(), "echo", id)
	return entry
}

// decide ends the newest attempt of s with code, or with success and an output.
func decide(
	ctx context.Context, log outcome.Log, s call.State, code envelope.Code, output string, earlier []call.Outcome,
) (outcome.Stored, error) {
	end := call.Completion{Cause: call.ToolEnded, By: call.ByExecutor, Nonce: "o-" + output, Now: call.At(time.Now()),
		Error: code, Effect: envelope.EffectApplied}
	d := outcome.Draft{Output: []byte(output)}
	if code != "" {
		d = outcome.Draft{Error: envelope.NewError(code, "")}
	}
	return outcome.Resolve(ctx, log, s, s.Last().N, s.Last().Admitted, end, d, earlier)
}

// The server has lost its end and used the positions again, for another call. Whoever had a result
// in hand has written it, with earlier attempts at positions that are not its own
// any more: what stands there is not taken for theirs.
func TestPositionsUsedAgain(t *testing.T) {
	log := &calltest.Log{}
	first := admit(t, log, "id1", callA)
	if _, err := decide(t.Context(), log, first.State, envelope.CodeUpstream, "", nil); err != nil {
		t.Fatal(err)
	}
	second := admit(t, log, "id1", callB)
	earlier, err := second.Outcomes()
	if err != nil {
		t.Fatal(err)
	}
	log.LoseTail(0)
	if _, err := decide(t.Context(), log, admit(t, log, "id2", "C").State, "", `{"of":"another call"}`, nil); err != nil {
		t.Fatal(err)
	}
	o, err := decide(t.Context(), log, second.State, "", `{"of":"this call"}`, earlier)
	if err != nil {
		t.Fatal(err)
	}
	got, err := outcome.Load(t.Context(), log, o.State, 1)
	if err != nil || got.Response.Error == nil || got.Response.Error.Code != envelope.CodeUpstream {
		t.Errorf("the outcome of attempt 1 is %+v, %v", got.Response, err)
	}
}

// A later attempt carries the outcomes of those before it, however its decider says that it has none of them at
// hand, and also where the request that carries them cannot be read.
func TestEarlierOutcomesAreCarriedAlways(t *testing.T) {
	for name, c := range map[string]struct {
		body    string // of the second attempt's request; "" is as it should be
		earlier []call.Outcome
	}{
		"nil":               {},
		"empty":             {earlier: []call.Outcome{}},
		"unreadable":        {body: `{"request":`},
		"unreadable, empty": {"no JSON", []call.Outcome{}},
	} {
		t.Run(name, func(t *testing.T) {
			log := &calltest.Log{}
			first := admit(t, log, "id1", callA).State
			if _, err := decide(t.Context(), log, first, envelope.CodeUpstream, "", nil); err != nil {
				t.Fatal(err)
			}
			s := admitWith(t, log, "id1", callB, c.body, call.Pure).State
			if _, err := decide(t.Context(), log, s, "", `{}`, c.earlier); err != nil {
				t.Fatal(err)
			}
			last, _ := log.Read(t.Context(), "echo", "id1")
			if outcomes, err := last.Outcomes(); err != nil || len(outcomes) != 2 || outcomes[0].Attempt != 1 {
				t.Errorf("the outcome carries %+v, %v", outcomes, err)
			}
		})
	}
}

// What an outcome says of its times, when no run tells: only what the log knows.
func TestTimesOfTheLog(t *testing.T) {
	timedOut := call.Completion{Cause: call.TimedOut, By: call.ByDeadline}
	cancelled := call.Completion{Cause: call.Cancelled, By: call.ByCanceller}
	unrunnable := call.Completion{
		Cause: call.Unrunnable, By: call.ByExecutor, Error: envelope.CodeUnavailable, Effect: envelope.EffectNone,
	}
	failed := call.Completion{Cause: call.ToolEnded, By: call.ByExecutor, Error: envelope.CodeUpstream}
	ran := outcome.Draft{Error: envelope.NewError(envelope.CodeUpstream, ""), Timed: true,
		Metrics: envelope.Metrics{QueueMS: 1}}
	confirmed, found := call.Completion{Cause: call.Confirmed, By: call.ByExecutor}, outcome.Draft{Output: []byte(`1`)}
	for name, c := range map[string]struct {
		class     call.EffectClass
		claimed   bool
		end       call.Completion
		draft     outcome.Draft
		queue, ms int64
	}{
		"claimed":                      {call.SideEffectful, true, timedOut, outcome.Draft{}, 300, 700},
		"claimed and cancelled":        {call.SideEffectful, true, cancelled, outcome.Draft{}, 300, 700},
		"claimed again":                {call.Pure, true, timedOut, outcome.Draft{}, 300, 700},
		"never claimed, and needs to":  {call.SideEffectful, false, timedOut, outcome.Draft{}, 1000, 0},
		"claimed, and cannot start":    {call.SideEffectful, true, unrunnable, outcome.Draft{}, 1000, 0},
		"no run was reported":          {call.Pure, false, timedOut, outcome.Draft{}, 1000, 0},
		"nobody knows of a cancel":     {call.Idempotent, false, cancelled, outcome.Draft{}, 0, 1000},
		"could not be started":         {call.Pure, false, unrunnable, outcome.Draft{}, 1000, 0},
		"its executor knows better":    {call.Pure, true, failed, ran, 1, 0},
		"confirmed after its executor": {call.SideEffectful, true, confirmed, found, 300, 700},
	} {
		t.Run(name, func(t *testing.T) {
			log := &calltest.Log{}
			s := admitWith(t, log, "id1", callA, "", c.class).State
			at := s.Last().At
			if c.claimed {
				pickup := call.WorkDelivery{Attempt: 1, Admitted: s.Seq, Deliveries: 2, Now: at + 300, By: "e", Nonce: "c"}
				step, claim := call.Take(s, pickup)
				if step != call.TakeClaim {
					t.Fatalf("step %v", step)
				}
				var err error
				if s, err = log.Write(t.Context(), claim, nil); err != nil {
					t.Fatal(err)
				}
			}
			c.end.Nonce, c.end.Now = "o", at+1000
			o, err := outcome.Resolve(t.Context(), log, s, 1, s.Last().Admitted, c.end, c.draft, nil)
			if err != nil {
				t.Fatal(err)
			}
			if m := o.Response.Metrics; m.QueueMS != c.queue || m.DurationMS != c.ms || m.Attempts != 1 {
				t.Errorf("%+v, want %d ms in the queue and then %d ms", m, c.queue, c.ms)
			}
		})
	}
}

// emptied is a log of which nothing is left but a foreign message at position 7.
type emptied struct {
	*calltest.Log
	expected []uint64
}

func (l *emptied) Write(_ context.Context, e call.Event, _ []byte) (call.State, error) {
	l.expected = append(l.expected, e.State.Seq)
	if e.State.Seq != 7 && len(l.expected) < 5 {
		return call.State{}, &call.ConflictError{State: call.State{Position: call.Position{Seq: 7}}}
	}
	return call.Fold(e, 8), nil
}

// A result is written behind whatever an operator has left in its log.
func TestEmptyButForAForeignMessage(t *testing.T) {
	log := &emptied{Log: &calltest.Log{}}
	s := admit(t, log.Log, "id1", callA).State
	o, err := decide(t.Context(), log, s, "", `{}`, nil)
	if err != nil || !o.Won || len(log.expected) != 2 {
		t.Errorf("%+v, %v, after writes that expected %v", o, err, log.expected)
	}
}

// bounded is a log that takes no large bodies.
type bounded struct{ *calltest.Log }

func (l bounded) Write(ctx context.Context, e call.Event, body []byte) (call.State, error) {
	if len(body) > 2000 {
		return call.State{}, call.ErrTooLarge
	}
	return l.Log.Write(ctx, e, body)
}

// An outcome that is too large together with those it carries is written as an error that says so.
func TestTooLargeToBeWritten(t *testing.T) {
	large := strings.Repeat("x", 2000)
	for name, c := range map[string]struct {
		draft outcome.Draft
		code  envelope.Code
		want  envelope.Code
	}{
		"output": {draft: outcome.Draft{Output: []byte(`{"x":"` + large + `"}`)}, want: envelope.CodeOutputLimit},
		"error": {
			draft: outcome.Draft{Error: envelope.NewError(envelope.CodeUpstream, "down").WithStderr(large)},
			code:  envelope.CodeUpstream, want: envelope.CodeUpstream,
		},
		"side effects": {
			draft: outcome.Draft{Output: []byte(`{}`), SideEffects: []jsontext.Value{[]byte(`{"x":"` + large + `"}`)}},
			want:  envelope.CodeOutputLimit,
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := bounded{&calltest.Log{}}
			s := admit(t, log.Log, "id1", callA).State
			end := call.Completion{
				Cause: call.ToolEnded, By: call.ByExecutor, Nonce: "o", Now: call.At(time.Now()), Error: c.code,
				Effect: envelope.EffectApplied, Output: "hash",
			}
			o, err := outcome.Resolve(t.Context(), log, s, 1, s.Seq, end, c.draft, nil)
			if err != nil || !o.Won || o.Response.Error == nil || o.Response.Error.Code != c.want ||
				o.Attempt.Decision.OutputHash != "" {
				t.Fatalf("%+v, %v", o.Response, err)
			}
			if e := o.Response.Error; !strings.Contains(e.Message+e.Cause, "larger than the server takes") {
				t.Errorf("nothing says why: %+v", e)
			}
		})
	}
}
