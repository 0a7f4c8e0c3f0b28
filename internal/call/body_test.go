package call_test

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

func TestTTL(t *testing.T) {
	t.Parallel()
	const keep = time.Hour // of the facts
	x := call.Expiry{Grace: 10 * time.Minute, Margin: time.Hour}
	timeout := func(d time.Duration) func(*call.Attempt) {
		return func(a *call.Attempt) { a.Deadline = a.At + call.UnixMS(d.Milliseconds()) }
	}
	for name, c := range map[string]struct {
		log  func(*journal)
		edit func(*call.Attempt) // of the first attempt
		keep time.Duration
		want time.Duration
	}{
		"request": {func(j *journal) { j.admit(call.Pure, "A") }, nil, keep,
			10*time.Minute + 15*time.Second},
		"request, rounded up": {func(j *journal) { j.admit(call.Pure, "A") }, timeout(time.Millisecond), keep,
			10*time.Minute + time.Second},
		"join": {func(j *journal) { j.admit(call.Pure, "A"); j.admit(call.Pure, "B") }, nil, keep,
			time.Hour + 10*time.Minute + 15*time.Second},
		"claim": {func(j *journal) { j.admit(call.Pure, "A"); j.claim("c") }, nil, keep,
			time.Hour + 10*time.Minute + 15*time.Second},
		"outcome": {func(j *journal) { j.admit(call.Pure, "A"); j.fail() }, nil, keep,
			time.Hour + 10*time.Minute + 15*time.Second},
		"outcome, long retention": {func(j *journal) { j.admit(call.Pure, "A"); j.fail() }, nil, 24 * time.Hour,
			24 * time.Hour},
		"second request": {func(j *journal) { j.admit(call.Pure, "A"); j.fail(); j.admit(call.Pure, "B") }, nil,
			24 * time.Hour, 24 * time.Hour},
		"second, after a long one": {func(j *journal) { j.admit(call.Pure, "A"); j.fail(); j.admit(call.Pure, "B") },
			timeout(3 * time.Hour), keep, 4*time.Hour + 10*time.Minute},
		"outcome, after a long one": {func(j *journal) {
			j.admit(call.Pure, "A")
			j.fail()
			j.admit(call.Pure,
				"B")
			j.succeed()
		}, timeout(3 * time.Hour), keep, 4*time.Hour + 10*time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			c.log(j)
			e := j.events[len(j.events)-1]
			e.State.KeepSeconds = int64(c.keep / time.Second)
			if c.edit != nil {
				c.edit(&e.State.Attempts[0])
			}
			if got := x.TTL(e); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// In a log that is bound the first request lives until the retention of an outcome at the deadline has passed: without
// it a claim or decision that never counted, and was stored before those that do, would be the first event. Later
// events outlive it all the same.
func TestTTLOfBoundLogs(t *testing.T) {
	t.Parallel()
	for _, keep := range []time.Duration{time.Minute, 24 * time.Hour} {
		j := newJournal(t)
		j.admit(call.SideEffectful, "A")
		j.claim("c")
		j.succeed()
		longest := time.Duration(0)
		for i, e := range j.events {
			e.State.KeepSeconds, e.State.Lookup = int64(keep/time.Second), call.LookupNo
			a, _ := e.State.Attempt(1)
			ttl := call.DefaultExpiry.TTL(e)
			if retained := a.Due().Sub(a.At.Time()) + keep; ttl < retained || ttl < longest {
				t.Errorf("event %d is kept for %v, the outcome may be for %v, and one before for %v", i, ttl, retained, longest)
			}
			longest = max(longest, ttl)
		}
	}
}

func TestTTLIsAtLeastASecond(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	j.admit(call.Pure, "A")
	e := j.events[0]
	if got := (call.Expiry{Grace: -time.Hour}).TTL(e); got != time.Second {
		t.Errorf("past its deadline: %v", got)
	}
	e.Attempt = 2
	if got := call.DefaultExpiry.TTL(e); got != time.Second {
		t.Errorf("no such attempt: %v", got)
	}
}

// TestTTLGrows holds what the fold relies on: an event outlives all that came before it.
func TestTTLGrows(t *testing.T) {
	t.Parallel()
	j := newJournal(t)
	for _, id := range []string{"A", "B", "C"} {
		a := ask(call.Idempotent, id)
		a.Deadline = start + map[string]call.UnixMS{"A": 600_000, "B": 1_000, "C": 60_000}[id]
		j.add(call.Admit(j.state, a).Event)
		j.admit(call.Idempotent, id+"'")
		j.claim("c" + id)
		j.fail()
	}
	longest := time.Duration(0)
	for i, e := range j.events {
		ttl := call.DefaultExpiry.TTL(e)
		if ttl < longest {
			t.Errorf("event %d (%s of attempt %d) is kept for %v, one before it for %v", i, e.Kind, e.Attempt, ttl, longest)
		}
		longest = max(longest, ttl)
	}
}

func body(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	earlier := []call.Outcome{{Attempt: 1, Seq: 3, Response: jsontext.Value(`{"a":1}`)}}
	state := call.State{Attempts: []call.Attempt{{N: 1}, {N: 2, Decision: &call.Decision{Seq: 9}}}}
	for name, c := range map[string]struct {
		entry call.Entry
		want  []call.Outcome
		fails bool
	}{
		"no body": {call.Entry{Kind: call.Claimed, State: state, Attempt: 2}, nil, false},
		"a first request": {call.Entry{Kind: call.Requested, State: state, Attempt: 1,
			Body: body(t, call.RequestBody{Request: jsontext.Value(`{}`)})}, nil, false},
		"a request with a history": {call.Entry{Kind: call.Requested, State: state, Attempt: 2,
			Body: body(t, call.RequestBody{Request: jsontext.Value(`{}`), Earlier: earlier})}, earlier, false},
		"an outcome": {
			call.Entry{Kind: call.Decided, State: state, Attempt: 2,
				Body: body(t, call.OutcomeBody{Response: jsontext.Value(`{"b":2}`), Earlier: earlier})},
			[]call.Outcome{earlier[0], {Attempt: 2, Seq: 9, Response: jsontext.Value(`{"b":2}`)}}, false,
		},
		"an outcome that the state does not know": {
			call.Entry{Kind: call.Decided, State: state, Attempt: 1,
				Body: body(t, call.OutcomeBody{Response: jsontext.Value(`{"b":2}`)})}, nil, true,
		},
		"no JSON": {call.Entry{Kind: call.Decided, State: state, Attempt: 2, Body: []byte("{")}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := c.entry.Outcomes()
			if diff := cmp.Diff(c.want, got); diff != "" || (err != nil) != c.fails {
				t.Errorf("error %v, %s", err, diff)
			}
			for _, o := range c.want {
				if one, ok, err := c.entry.Outcome(o.Attempt); !ok || err != nil || !cmp.Equal(one, o) {
					t.Errorf("attempt %d: %+v, %t, %v", o.Attempt, one, ok, err)
				}
			}
			if _, ok, err := c.entry.Outcome(7); ok || (err != nil) != c.fails {
				t.Errorf("attempt 7: %t, %v", ok, err)
			}
		})
	}
}

func TestMoved(t *testing.T) {
	t.Parallel()
	moved := call.ConflictError{State: call.State{Position: call.Position{Seq: 7}}}
	if got := moved.Error(); got != "call log moved to 7" {
		t.Error(got)
	}
}

// TestBodies encodes what the short form is made for, and what needs the long one: both are the
// JSON of the same members, and are read back.
func TestBodies(t *testing.T) {
	t.Parallel()
	document := jsontext.Value(`{"a":[1,{"b":"}"}]}`)
	earlier := []call.Outcome{{Attempt: 1, Seq: 3, Response: document}}
	for name, c := range map[string]call.RequestBody{
		"only a request":     {Request: document},
		"an input elsewhere": {Request: document, InputRef: "sha256:00"},
		"a history":          {Request: document, Earlier: earlier},
	} {
		raw, err := c.Encode()
		if err != nil || string(raw) != string(body(t, c)) {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
		if got, err := call.DecodeRequestBody(raw); err != nil || !cmp.Equal(got, c) {
			t.Errorf("%s: read as %+v, %v", name, got, err)
		}
	}
	r := &envelope.Response{CallID: envelope.NoCallID, Status: envelope.Success, Output: document,
		Provenance: envelope.Provenance{ToolID: "t", ToolVersion: "1.0.0"}}
	for name, c := range map[string]struct {
		output  jsontext.Value
		earlier []call.Outcome
	}{
		"only a response":       {document, nil},
		"only a large response": {jsontext.Value(`"` + strings.Repeat("long ", 2000) + `"`), nil},
		"a history":             {document, earlier},
	} {
		r.Output = c.output
		raw, err := call.EncodeOutcome(r, c.earlier)
		if want := body(t, call.OutcomeBody{Response: body(t, r), Earlier: c.earlier}); err != nil ||
			string(raw) != string(want) {
			t.Errorf("%s: %s, %v, want %s", name, raw, err, want)
		}
	}
}
