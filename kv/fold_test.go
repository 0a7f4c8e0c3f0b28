package kv_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/kv"
)

// claimed writes the request and the claim of a call whose request says what its tool has.
func (f *fixture) claimed(t *testing.T, id string, lookup call.Lookup) call.State {
	t.Helper()
	e := admission(t, call.State{}, id, "A", time.Minute)
	e.State.Lookup = lookup
	s, err := f.log.Write(t.Context(), e, []byte(`{"request":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	c := claim(t, s, "claimer")
	if s, err = f.log.Write(t.Context(), c, nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// success is what an instance would write of a success of the newest attempt.
func success(s call.State, nonce string, change func(*call.State, *call.Attempt)) call.Event {
	e := call.Event{Kind: call.Decided, Attempt: 1, Nonce: nonce, State: s}
	e.State.Attempts = append([]call.Attempt(nil), s.Attempts...)
	a := &e.State.Attempts[0]
	a.Decision = &call.Decision{Nonce: nonce, Status: envelope.Success, Effect: envelope.EffectApplied,
		By: call.ByExecutor, At: a.At}
	if change != nil {
		change(&e.State, a)
	}
	return e
}

// put stores an event as it is, without a look at the log.
func (f *fixture) put(t *testing.T, e call.Event, text string) uint64 {
	t.Helper()
	ack, err := f.js.PublishMsg(t.Context(), &nats.Msg{Subject: kv.EventSubject(e), Data: body,
		Header: nats.Header{"Tb-Event": {text}}})
	if err != nil {
		t.Fatal(err)
	}
	return ack.Sequence
}

// Whatever another executor writes into the log of a call that is claimed, the log is what it was, the next write
// follows the intruder, and what has ended stays as it ended.
func TestStrangersEventsCountNothing(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	for name, change := range map[string]func(*call.State, *call.Attempt){
		"as it is": nil,
		"own":      func(_ *call.State, a *call.Attempt) { c := *a.Claim; c.Nonce = "other.1"; a.Claim = &c },
		"pure":     func(s *call.State, _ *call.Attempt) { s.Class, s.Lookup = call.Pure, "" },
		"lookup":   func(s *call.State, _ *call.Attempt) { s.Lookup = call.LookupYes },
		"former":   func(s *call.State, _ *call.Attempt) { s.Lookup = "" },
		"deadline": func(_ *call.State, a *call.Attempt) {
			a.Decision.By, a.Decision.Status, a.Decision.Code = call.ByDeadline, envelope.RetryableError, envelope.CodeTimeout
			a.Decision.Effect = envelope.EffectNone
		},
	} {
		s := f.claimed(t, strings.ReplaceAll(name, " ", "-"), call.LookupNo)
		lie := success(s, "other.9", change)
		end := f.put(t, lie, kv.EncodeEvent(lie))
		last, err := f.log.Read(t.Context(), s.Tool, s.ID)
		if err != nil || !last.State.Last().Open() || last.State.Last().Claim.Nonce != "c-claimer" || last.State.Seq != end {
			t.Errorf("%s: read as %+v, %v", name, last.State, err)
			continue
		}
		_, err = f.log.Write(t.Context(), success(s, "c-claimer", nil), body)
		moved, ok := errors.AsType[*call.ConflictError](err)
		if !ok {
			t.Errorf("%s: the claimer's write: %v", name, err)
			continue
		}
		if s, err = f.log.Write(t.Context(), success(moved.State, "c-claimer", nil), body); err != nil {
			t.Errorf("%s: the claimer's second write: %v", name, err)
			continue
		}
		f.put(t, lie, kv.EncodeEvent(lie))
		if last, err = f.log.Read(t.Context(), s.Tool, s.ID); err != nil || last.State.Last().Decision.Nonce != "c-claimer" {
			t.Errorf("%s: after the outcome read as %+v, %v", name, last.State.Last().Decision, err)
		}
	}
}

// A log that builds before the rule have opened is read as they do: by its last event alone.
func TestLogsWithoutTheRule(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	s := f.claimed(t, "former", "")
	e := success(s, "other.9", nil)
	f.put(t, e, kv.EncodeEvent(e))
	last, err := f.log.Read(t.Context(), s.Tool, s.ID)
	if err != nil || last.State.Last().Decision == nil || last.State.Last().Decision.Nonce != "other.9" {
		t.Errorf("read as %+v, %v", last.State, err)
	}
}

// What cannot be read counts nothing where an executor wrote it, and keeps the log from being read elsewhere.
func TestUnreadableEvents(t *testing.T) {
	f := setup(t, kv.LogOptions{Passes: func(instance string) bool { return instance != "d-1" }}, bus.TopologyOptions{})
	for _, text := range []string{"99;f|x", "3;f|garbage", "garbage"} {
		s := f.claimed(t, "e"+text[:1]+text[2:3], call.LookupNo)
		end := f.put(t, success(s, "other.9", nil), text)
		last, err := f.log.Read(t.Context(), s.Tool, s.ID)
		if err != nil || !last.State.Last().Open() || last.State.Last().Claim == nil || last.State.Seq != end {
			t.Errorf("%s of an executor: %+v, %v", text, last.State, err)
		}
		if _, err := f.log.Write(t.Context(), success(last.State, "c-claimer", nil), body); err != nil {
			t.Errorf("%s of an executor: %v", text, err)
		}
	}
	s := f.claimed(t, "newer", call.LookupNo)
	f.put(t, success(s, "d-1.9", nil), "99;f|x")
	if _, err := f.log.Read(t.Context(), s.Tool, s.ID); !format.Newer(err) {
		t.Errorf("of a dispatcher: %v", err)
	}
}

// A log whose request has expired goes on from what is left of it.
func TestRequestExpired(t *testing.T) {
	f := setup(t, kv.LogOptions{}, bus.TopologyOptions{})
	s := f.claimed(t, "old", call.LookupNo)
	stream, err := f.js.Stream(t.Context(), s.Partition.Stream())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(t.Context(), s.Last().Admitted); err != nil {
		t.Fatal(err)
	}
	lie := success(s, "other.9", nil)
	f.put(t, lie, kv.EncodeEvent(lie))
	last, err := f.log.Read(t.Context(), s.Tool, s.ID)
	if err != nil || !last.State.Last().Open() {
		t.Fatalf("read as %+v, %v", last.State, err)
	}
	if _, err := f.log.Write(t.Context(), success(last.State, "c-claimer", nil), body); err != nil {
		t.Error(err)
	}
}

// What an executor wrote for an open attempt and nobody can decode marks the attempt, in the log as it is read and in
// what is written next. Other messages, and other attempts, leave no mark.
func TestUndecodedEventsMarkTheirAttempt(t *testing.T) {
	f := setup(t, kv.LogOptions{Passes: func(instance string) bool { return instance != "d-1" }}, bus.TopologyOptions{})
	for class, lookup := range map[call.EffectClass]call.Lookup{
		call.Pure: "", call.Idempotent: "", call.SideEffectful: call.LookupNo,
	} {
		for i, text := range []string{"99;f|x", "3;f|garbage", "garbage", ""} {
			id := fmt.Sprint(class, i)
			e := admission(t, call.State{}, id, "A", time.Minute)
			e.State.Class, e.State.Lookup = class, lookup
			s, err := f.log.Write(t.Context(), e, []byte(`{"request":{}}`))
			if err != nil {
				t.Fatal(err)
			}
			f.put(t, success(s, "other.9", func(_ *call.State, a *call.Attempt) { a.N = 2 }), "x")
			end := f.put(t, success(s, "other.9", nil), text)
			last, err := f.log.Read(t.Context(), s.Tool, id)
			if err != nil || !last.State.Last().Undecoded || last.State.Seq != end {
				t.Fatalf("%s, %q: read as %+v, %v", class, text, last.State, err)
			}
			join, _ := call.JoinAll(last.State, 1, []string{"B"}, "d-1.2")
			if _, err := f.log.Write(t.Context(), join, nil); err != nil {
				t.Fatal(err)
			}
			if last, err = f.log.Read(t.Context(), s.Tool, id); err != nil || !last.State.Last().Undecoded {
				t.Errorf("%s, %q, after a join: %+v, %v", class, text, last.State.Last(), err)
			}
		}
	}
	foreign := f.claimed(t, "foreign", call.LookupNo)
	f.put(t, success(foreign, "other.9", nil), kv.EncodeEvent(success(foreign, "other.9", nil)))
	if last, err := f.log.Read(t.Context(), foreign.Tool, foreign.ID); err != nil || last.State.Last().Undecoded {
		t.Errorf("an event that can be decoded: %+v, %v", last.State.Last(), err)
	}
}

// Whatever an executor writes in place of the tool, the id and the attempt of a subject, dispatchers go on.
func TestOddSubjectsStopNobody(t *testing.T) {
	passes := func(instance string) bool { return !strings.HasPrefix(instance, "d-") }
	for subject, want := range map[string]bool{
		"$KV.calls.pay.id.1.c.other":     true,
		"$KV.calls.pay.id.none.c.other":  true,
		"$KV.calls.pay._zz.0.x.o.other":  true,
		"$KV.calls.pay.id.1.c._zz":       true,
		"$KV.calls.pay.id.1.c.d-1":       false,
		"$KV.calls.pay.id.1.x.p":         false,
		"$KV.calls.pay.id.1.x.k.other":   false,
		"$KV.calls.pay.id.1.q.1.2.other": false,
		"$KV.calls.pay.id.1.j":           false,
		"$KV.other.pay.id.1.c.other":     false,
	} {
		if got := kv.Passed(subject, passes); got != want {
			t.Errorf("%s: passed %t", subject, got)
		}
	}
}

// A success that an executor stored before the rightful claim never counts, also once a request would have expired that
// is not kept as long as its outcomes: the request of a call that needs no claim shows when that is.
func TestLieBeforeTheClaimNeverCounts(t *testing.T) {
	f := setup(t, kv.LogOptions{Expiry: call.Expiry{Grace: time.Second, Margin: time.Minute}}, bus.TopologyOptions{})
	request := admission(t, call.State{}, "lied", "A", 500*time.Millisecond)
	request.State.Lookup = call.LookupNo
	s, err := f.log.Write(t.Context(), request, []byte(`{"request":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	lie := success(s, "other.9", func(_ *call.State, a *call.Attempt) {
		a.Claim = &call.Claim{By: "default/other", Nonce: "other.1", Fence: s.Seq, Count: 1}
	})
	s.Seq = f.put(t, lie, kv.EncodeEvent(lie))
	if s, err = f.log.Write(t.Context(), claim(t, s, "claimer"), nil); err != nil {
		t.Fatal(err)
	}
	if s, err = f.log.Write(t.Context(), success(s, "c-claimer", nil), body); err != nil {
		t.Fatal(err)
	}
	shown := admission(t, call.State{}, "shown", "A", 500*time.Millisecond)
	shown.State.Class = call.Idempotent
	if shown.State, err = f.log.Write(t.Context(), shown, nil); err != nil {
		t.Fatal(err)
	}
	for expired := false; !expired; {
		left, err := f.log.Get(t.Context(), shown.State.Position)
		if err != nil {
			t.Fatal(err)
		}
		expired = left.State.Empty()
		last, err := f.log.Read(t.Context(), s.Tool, s.ID)
		if err != nil || last.State.Last().Decision == nil || last.State.Last().Decision.Nonce != "c-claimer" {
			t.Fatalf("read as %+v, %v", last.State, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}
