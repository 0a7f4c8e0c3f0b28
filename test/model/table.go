package model

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/kv"
)

// Ids of interned values; 0 is the empty log, no event, no outcome.
type (
	viewID    uint32 // a folded log
	draftID   uint32 // an event that somebody wants to write, with its body
	entryID   uint32 // a stored event
	outcomeID uint32 // an outcome as a caller is told it
)

// table interns what is large, so that a world stays small. Everything in it is immutable.
type table struct {
	views    []call.State
	drafts   []event
	entries  []stored
	outcomes []verdict

	viewOf    map[string]viewID
	draftOf   map[string]draftID
	entryOf   map[position]entryID
	outcomeOf map[string]outcomeID
	heldBy    map[holding]outcomeID
}

// holding is an attempt whose outcome an event may hold.
type holding struct {
	entry   entryID
	attempt int
}

// event is an event and its body.
type event struct {
	call.Event
	body []byte
	raw  string // the event as the header carries it
}

// body is a call.RequestBody or a call.OutcomeBody.
type body interface{ Encode() ([]byte, error) }

type position struct {
	draft draftID
	seq   uint8
}

// stored is an event in the store.
type stored struct {
	call.Entry
	draft draftID
	view  viewID
	seq   uint8
}

// event returns the event that was stored.
func (s stored) event() call.Event {
	e := call.Event{Kind: s.Kind, Attempt: s.Attempt, State: s.State}
	a, _ := s.State.Attempt(s.Attempt)
	switch {
	case s.Kind == call.Requested:
		e.Nonce = a.Nonce
	case s.Kind == call.Claimed:
		e.Nonce = a.Claim.Nonce
	case s.Kind == call.Decided:
		e.Nonce = a.Decision.Nonce
	}
	return e
}

// verdict is a response in the model: who decided, on what input it was computed ("" when
// nothing ran), and for which attempt.
type verdict struct {
	Code    envelope.Code   `json:"code"`
	Effect  envelope.Effect `json:"effect"`
	By      string          `json:"by"`
	Input   string          `json:"input"`
	Attempt int             `json:"attempt"`
}

func newTable() *table {
	return &table{
		views: make([]call.State, 1), drafts: make([]event, 1), entries: make([]stored, 1), outcomes: make([]verdict, 1),
		viewOf: map[string]viewID{}, draftOf: map[string]draftID{}, entryOf: map[position]entryID{},
		outcomeOf: map[string]outcomeID{},
		heldBy:    map[holding]outcomeID{},
	}
}

func (t *table) view(s call.State) viewID {
	if s.Empty() {
		return 0
	}
	key := s.ID + kv.EncodeEvent(call.Event{State: s}) + "@" + strconv.FormatUint(s.Seq, 10)
	return intern(t.viewOf, key, &t.views, s)
}

// draft interns an event that was derived from the log at e.State.Seq.
func (t *table) draft(e call.Event, b body) draftID {
	ev := event{Event: e, raw: kv.EncodeEvent(e)}
	if b != nil {
		var err error
		if ev.body, err = b.Encode(); err != nil {
			panic(err)
		}
	}
	key := fmt.Sprintf("%s%s%s@%d", kv.EventSubject(e), ev.raw, ev.body, e.State.Seq)
	return intern(t.draftOf, key, &t.drafts, ev)
}

// store returns draft d as it is read back from position seq, which is what kv.Log does.
func (t *table) store(d draftID, seq uint8) entryID {
	at := position{d, seq}
	if id, ok := t.entryOf[at]; ok {
		return id
	}
	e, err := kv.ParseEvent(kv.EventSubject(t.drafts[d].Event), t.drafts[d].raw)
	switch {
	case errors.Is(err, call.ErrForeign): // believed all the same, with a rule left out
		e = t.drafts[d].Event
	case err != nil:
		panic(err)
	}
	s := call.Fold(e, uint64(seq))
	entry := call.Entry{State: s, Kind: e.Kind, Attempt: e.Attempt, Body: t.drafts[d].body}
	return intern(t.entryOf, at, &t.entries, stored{Entry: entry, draft: d, view: t.view(s), seq: seq})
}

// outcomeIn returns the outcome of attempt n that the stored event holds; 0 when it does not.
func (t *table) outcomeIn(id entryID, n int) outcomeID {
	at := holding{id, n}
	held, known := t.heldBy[at]
	if known {
		return held
	}
	o, ok, err := t.entries[id].Outcome(n)
	if err != nil {
		panic(err)
	}
	if ok {
		var v verdict
		decode(o.Response, &v)
		held = intern(t.outcomeOf, fmt.Sprintf("%d@%d%s", o.Attempt, o.Seq, o.Response), &t.outcomes, v)
	}
	t.heldBy[at] = held
	return held
}

// refusal returns the answer of a dispatcher that lags.
func (t *table) refusal() outcomeID {
	v := verdict{Code: envelope.CodeAuditLag, Effect: envelope.EffectNone, By: "a dispatcher"}
	return intern(t.outcomeOf, "refusal", &t.outcomes, v)
}

func intern[K comparable, I ~uint32, V any](ids map[K]I, key K, values *[]V, v V) I {
	id, ok := ids[key]
	if !ok {
		if len(*values) >= 1<<32 {
			panic("model: more values than fit an id; choose a smaller configuration")
		}
		id = I(len(*values))
		*values = append(*values, v)
		ids[key] = id
	}
	return id
}

func encode(v any) jsontext.Value {
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return raw
}

func decode(raw []byte, v any) {
	if err := json.Unmarshal(raw, v); err != nil {
		panic(err)
	}
}
