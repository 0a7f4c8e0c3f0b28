package outcome_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/calltest"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
)

// Two callers.
const (
	callA = "0b9c1ad4-0000-4000-8000-00000000000a"
	callB = "0b9c1ad4-0000-4000-8000-00000000000b"
)

// timeout is how a guardian ends an attempt: it has nothing at hand but the state.
func timeout(t *testing.T, log outcome.Log, s call.State, n int, admitted uint64) (outcome.Stored, error) {
	t.Helper()
	end := call.Completion{Cause: call.TimedOut, By: call.ByDeadline, Nonce: "guardian", Now: call.At(time.Now())}
	return outcome.Resolve(t.Context(), log, s, n, admitted, end, outcome.Draft{}, nil)
}

// Of two who decide, the second gets what the first has written, also if it knows the log as it was before.
func TestOneDecides(t *testing.T) {
	log := &calltest.Log{}
	open := admit(t, log, "id1", callA).State
	won, err := decide(t.Context(), log, open, "", `{"n":1}`, nil)
	if err != nil || !won.Won {
		t.Fatalf("%+v, %v", won, err)
	}
	for name, known := range map[string]call.State{"known to be decided": won.State, "known as open": open} {
		o, err := timeout(t, log, known, 1, open.Seq)
		if err != nil || o.Won || string(o.Response.Output) != `{"n":1}` ||
			o.Response.Provenance.AuditEventID != won.Response.Provenance.AuditEventID {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
	if n := len(log.Entries()); n != 2 {
		t.Errorf("%d events", n)
	}
}

// newer is a log to which a newer build writes: it says more of an outcome than is known here.
type newer struct{ *calltest.Log }

func (l newer) Write(ctx context.Context, e call.Event, body []byte) (call.State, error) {
	for _, place := range []string{"error", "metrics", "provenance"} {
		opening := `"` + place + `":{`
		body = []byte(strings.Replace(string(body), opening, opening+`"new":"`+place+`",`, 1))
	}
	return l.Log.Write(ctx, e, body)
}

// What a newer build says of an outcome, this one tells as it was stored.
func TestOutcomeIsToldWhole(t *testing.T) {
	log := newer{&calltest.Log{}}
	won, err := decide(t.Context(), log, admit(t, log.Log, "id1", callA).State, envelope.CodeUpstream, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	o, err := outcome.Load(t.Context(), log, won.State, 1)
	if err != nil {
		t.Fatal(err)
	}
	told, err := envelope.EncodeResponse(envelope.ContentJSON, o.For(callB, true))
	if err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{"error", "metrics", "provenance"} {
		if !strings.Contains(string(told), `"new":"`+place+`"`) {
			t.Errorf("%s has lost what it said: %s", place, told)
		}
	}
}

// What is not in the log is neither decided nor told.
func TestGone(t *testing.T) {
	log := &calltest.Log{}
	s := admit(t, log, "id1", callA).State
	for name, try := range map[string]func() (outcome.Stored, error){
		"another admission":  func() (outcome.Stored, error) { return timeout(t, log, s, 1, s.Seq+1) },
		"no such attempt":    func() (outcome.Stored, error) { return timeout(t, log, s, 2, s.Seq) },
		"outcome of none":    func() (outcome.Stored, error) { return outcome.Load(t.Context(), log, s, 2) },
		"outcome of an open": func() (outcome.Stored, error) { return outcome.Load(t.Context(), log, s, 1) },
	} {
		if _, err := try(); !errors.Is(err, outcome.ErrAttemptGone) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(log.Entries()); n != 1 {
		t.Errorf("%d events", n)
	}
	other, err := decide(t.Context(), log, s, "", `{}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := timeout(t, log, other.State, 1, s.Seq+1); !errors.Is(err, outcome.ErrAttemptGone) {
		t.Errorf("the outcome of another admission: %+v, %v", o, err)
	}
}

// A claim comes while somebody decides: the effect is judged by the log as it is then (C1, C4).
func TestDecidesByTheLogAsItIs(t *testing.T) {
	log := &calltest.Log{}
	s := admitWith(t, log, "id1", callA, "", call.SideEffectful).State
	log.Before(func(call.Event) error {
		log.Before(nil)
		_, claim := call.Take(s, call.WorkDelivery{Attempt: 1, Admitted: s.Seq, Deliveries: 1, Now: call.At(time.Now()),
			By: "e1", Nonce: "c"})
		_, err := log.Write(t.Context(), claim, nil)
		return err
	})
	o, err := timeout(t, log, s, 1, s.Seq)
	if err != nil || !o.Won || o.Response.Error.Code != envelope.CodeTimeoutUnknown ||
		o.Response.Error.Details.Effect != envelope.EffectUnknown {
		t.Errorf("%+v, %v", o.Response, err)
	}
}

// second opens a second attempt behind a failed first one.
func second(t *testing.T, log *calltest.Log) call.State {
	t.Helper()
	first := admit(t, log, "id1", callA).State
	if _, err := decide(t.Context(), log, first, envelope.CodeUpstream, "", nil); err != nil {
		t.Fatal(err)
	}
	return admit(t, log, "id1", callB).State
}

// Whoever decides a later attempt carries the earlier outcomes on, though it has only the state at
// hand; they are found where they are when their own events have expired.
func TestEarlierOutcomesAreCarried(t *testing.T) {
	log := &calltest.Log{}
	s := second(t, log)
	o, err := timeout(t, log, s, 2, s.Seq)
	if err != nil || !o.Won {
		t.Fatalf("%+v, %v", o, err)
	}
	for _, expired := range []uint64{0, s.Seq} {
		log.DropUntil(expired)
		for n, code := range map[int]envelope.Code{1: envelope.CodeUpstream, 2: envelope.CodeTimeout} {
			got, err := outcome.Load(t.Context(), log, o.State, n)
			if err != nil || got.Response.Error.Code != code {
				t.Errorf("events up to %d expired, attempt %d: %+v, %v", expired, n, got.Response, err)
			}
		}
	}
}

// Behind the last outcome nothing may have a body: then the request of the last attempt holds them.
func TestEarlierOutcomesOfAClaim(t *testing.T) {
	log := &calltest.Log{}
	s := second(t, log)
	_, claim := call.Take(s, call.WorkDelivery{Attempt: 2, Admitted: s.Seq, Deliveries: 2,
		Now: call.At(time.Now()), By: "e1",
		Nonce: "c"})
	s, err := log.Write(t.Context(), claim, nil)
	if err != nil {
		t.Fatal(err)
	}
	log.DropUntil(s.Last().Admitted - 1)
	got, err := outcome.Load(t.Context(), log, s, 1)
	if err != nil || got.Response.Error.Code != envelope.CodeUpstream {
		t.Errorf("%+v, %v", got.Response, err)
	}
	log.DropUntil(s.Last().Admitted)
	if _, err := outcome.Load(t.Context(), log, s, 1); !errors.Is(err, outcome.ErrAttemptGone) {
		t.Errorf("held nowhere: %v", err)
	}
}

// unreadable is a log that takes writes and cannot be read.
type unreadable struct{ *calltest.Log }

var errRead = errors.New("the log cannot be read")

func (unreadable) Read(context.Context, string, string) (call.Entry, error) {
	return call.Entry{}, errRead
}
func (unreadable) Get(context.Context, call.Position) (call.Entry, error) {
	return call.Entry{}, errRead
}

// What cannot be read is not taken for nothing: an outcome is not gone, and a decision that would have to
// carry others is not written without them.
func TestUnreadableIsNotGone(t *testing.T) {
	log := &calltest.Log{}
	s := second(t, log)
	if _, err := outcome.Load(t.Context(), unreadable{log}, s, 1); !errors.Is(err, errRead) {
		t.Errorf("load: %v", err)
	}
	if o, err := timeout(t, unreadable{log}, s, 2, s.Seq); !errors.Is(err, errRead) || len(log.Entries()) != 3 {
		t.Errorf("decide: %+v, %v, %d events", o, err, len(log.Entries()))
	}
}

// If the attempt ends with another error than the tool returned, the error of the tool is its cause.
func TestErrorOfTheToolIsTheCause(t *testing.T) {
	log := &calltest.Log{}
	s := admit(t, log, "id", "c1").State
	said := envelope.NewError(envelope.CodeUnavailable, "the upstream is down").WithCause("connection refused")
	said.Details.ToolCode = "E-DOWN"
	end := call.Completion{Cause: call.TimedOut, By: call.ByDeadline, Nonce: "d.1", Now: s.Last().Deadline}
	stored, err := outcome.Resolve(t.Context(), log, s, 1, s.Last().Admitted, end, outcome.Draft{Error: said}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := stored.Response.Error
	cause := string(envelope.CodeUnavailable) + ": the upstream is down: connection refused"
	if e.Code != envelope.CodeTimeout || e.Cause != cause || e.Details.ToolCode != "E-DOWN" {
		t.Errorf("%+v", e)
	}
}

// What is stored can be read: a response that readers would refuse is stored as an error that they accept.
func TestStoredCanBeRead(t *testing.T) {
	effect := func(text string) outcome.Draft {
		return outcome.Draft{Output: []byte(`{}`), SideEffects: []jsontext.Value{[]byte(text)}}
	}
	for name, c := range map[string]struct {
		draft outcome.Draft
		code  envelope.Code
		want  envelope.Code
	}{
		"negative times": {draft: outcome.Draft{
			Output: []byte(`{}`), Timed: true,
			Metrics: envelope.Metrics{DurationMS: -1, QueueMS: -1, CPUMS: -1, MemoryPeakMB: -1},
		}},
		"no output":    {want: envelope.CodeToolProtocol},
		"side effect":  {draft: effect(`{"type":"write"}`)},
		"no object":    {draft: effect(`"write"`), want: envelope.CodeToolProtocol},
		"member twice": {draft: effect(`{"a":1,"a":1}`), want: envelope.CodeToolProtocol},
		"no JSON":      {draft: effect(`{`), want: envelope.CodeToolProtocol},
		"warning": {
			draft: outcome.Draft{Output: []byte(`{}`), Warnings: []string{"\xff"}}, want: envelope.CodeToolProtocol,
		},
		"message": {
			draft: outcome.Draft{Error: envelope.NewError(envelope.CodeUpstream, "\xff")},
			code:  envelope.CodeUpstream, want: envelope.CodeUpstream,
		},
		"large side effects": {draft: effect(`{"a":"` + strings.Repeat("x", 3000) + `"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			log := &calltest.Log{}
			s := admit(t, log, "id1", callA).State
			end := call.Completion{
				Cause: call.ToolEnded, By: call.ByExecutor, Nonce: "o", Now: call.At(time.Now()), Error: c.code,
				Effect: envelope.EffectApplied, Output: "hash",
			}
			won, err := outcome.Resolve(t.Context(), log, s, 1, s.Seq, end, c.draft, nil)
			if err != nil {
				t.Fatal(err)
			}
			read, err := outcome.Load(t.Context(), log, won.State, 1)
			if err != nil {
				t.Fatalf("%+v: %v", won.Response, err)
			}
			if code := read.Attempt.Decision.Code; code != c.want || read.Response.Status != won.Response.Status {
				t.Errorf("%q, want %q: %+v", code, c.want, read.Response)
			}
		})
	}
}

// A negative duration that an older build has stored is read as 0.
func TestNegativeDurationOfAnOlderBuild(t *testing.T) {
	log := older{&calltest.Log{}}
	won, err := decide(t.Context(), log, admit(t, log.Log, "id1", callA).State, "", `{"n":1}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	o, err := outcome.Load(t.Context(), log, won.State, 1)
	if err != nil || o.Response.Metrics.DurationMS != 0 || string(o.Response.Output) != `{"n":1}` {
		t.Errorf("%+v, %v", o.Response, err)
	}
}

// older is a log to which an older build writes, whose clock was set back during the run.
type older struct{ *calltest.Log }

func (l older) Write(ctx context.Context, e call.Event, body []byte) (call.State, error) {
	text, n := string(body), strings.Index(string(body), `"duration_ms":`)
	rest := text[n+len(`"duration_ms":`):]
	return l.Log.Write(ctx, e, []byte(text[:n]+`"duration_ms":-104`+rest[strings.IndexByte(rest, ','):]))
}
