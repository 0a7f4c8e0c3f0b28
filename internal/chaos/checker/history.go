package checker

import (
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/chaos/effects"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// History is everything that was recorded of a run. Asks and Cancels are what callers saw, the
// others what is kept: by the bus, by auditors, and by the world outside.
type History struct {
	Asks    []Ask
	Cancels []Cancel
	Log     []call.Entry // every event of the call log, by sequence
	Kept                 // all of AUDIT and DENIED
	Effects []effects.Line
	Dead    []Grave // all of DEAD
	Led     []Span  // when every stream had a leader
	Revoked []Revocation
	Held    []Span // when messages to dispatchers and servers, or they themselves, may have been held up
	// SlackMS is how much later than it was admitted the time of a request in the log may be, in milliseconds: by clocks
	// that were compared, and by what messages take when nothing holds them up.
	SlackMS int64
}

// Span is the time between two moments.
type Span struct{ From, To time.Time }

// Grave says of which attempt a dead letter is.
type Grave struct {
	Ref     string
	Attempt int
}

// Ask is one request of one caller, and all it got for it.
type Ask struct {
	Caller      string
	Actor       string
	Scene       string // what the caller was up to
	Tool, Key   string
	CallID      string
	Ref         string // of the log that the request belongs to
	Fingerprint string
	N           int64 // of the input
	// Sent, Due and Done are when the request was made, when its deadline was, and when the
	// caller had its answer; StalledMS is how late control timers of the same caller were
	// between Due and Done.
	Sent, Due, Done time.Time
	StalledMS       int64
	Accepted        []envelope.Accepted
	Answers         []*envelope.Response
	Unsent          string // why the request was not made at all
	Streamed        bool
	Door            bool // it was made through a door of the bus
	MCP             bool // it was made through a door for MCP clients, whose answers say less
	// Copies says that the caller published the request several times by hand. Each copy has
	// answers of its own: one may be refused and another be accepted.
	Copies bool
	Chunks []envelope.Chunk
}

// same says whether the ask has the input of a log.
func (a *Ask) same(l *log) bool {
	return l.last.Fingerprint == a.Fingerprint
}

// stalled is StalledMS as a duration.
func (a *Ask) stalled() time.Duration { return time.Duration(a.StalledMS) * time.Millisecond }

// Judged says whether the caller's own timers were exact enough to judge when it was answered.
func (a *Ask) Judged() bool { return a.stalled() <= exact }

// Cancel is one wish to end a call, and what was said to it.
type Cancel struct {
	Caller, Ref, CallID string
	Sent, Done          time.Time
	Told                string
	Response            *envelope.Response
	Failed              string
}

// Violation is a broken promise.
type Violation struct {
	Rule   string `json:"rule"`
	Ref    string `json:"ref,omitzero"`
	CallID string `json:"call_id,omitzero"`
	Says   string `json:"says"`
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s (call %s, ref %s)", v.Rule, v.Says, v.CallID, v.Ref)
}

// index is a history, found by what it is about.
type index struct {
	History
	logs   map[string]*log
	starts map[string][]effects.Line
	done   map[string][]effects.Line // effects
	gate   map[string]audit.Record   // by id, what is no event
}

// log is the log of one call.
type log struct {
	ref    string
	events []call.Entry
	last   call.State
}

func newIndex(h History) *index {
	x := &index{
		History: h, logs: map[string]*log{},
		starts: map[string][]effects.Line{}, done: map[string][]effects.Line{}, gate: map[string]audit.Record{},
	}
	for _, e := range h.Log {
		ref := e.State.Ref()
		l := x.logs[ref]
		if l == nil {
			l = &log{ref: ref}
			x.logs[ref] = l
		}
		l.events, l.last = append(l.events, e), e.State
	}
	for _, e := range h.Effects {
		ref := refOf(e)
		if e.Op == effects.Commit {
			x.done[ref] = append(x.done[ref], e)
		} else {
			x.starts[ref] = append(x.starts[ref], e)
		}
	}
	for _, r := range h.Audit {
		if r.LogSeq == 0 || r.Event == audit.LateResult {
			x.gate[r.ID] = r.Record
		}
	}
	return x
}

// refOf is the call that a run was of: tools are given its id for a key.
func refOf(e effects.Line) string { return subjects.Key{Tool: e.Tool, ID: e.Key}.Ref() }

// outcome returns the stored response of attempt n.
func (l *log) outcome(n int) (*envelope.Response, error) {
	for _, e := range l.events {
		if e.Kind != call.Decided || e.Attempt != n {
			continue
		}
		o, ok, err := e.Outcome(n)
		if err != nil || !ok {
			return nil, fmt.Errorf("the stored outcome of attempt %d cannot be read: %v", n, err)
		}
		r, fault := envelope.DecodeResponse(envelope.ContentJSON, o.Response)
		if fault != nil {
			return nil, fmt.Errorf("the stored outcome of attempt %d cannot be read: %s", n, fault)
		}
		return r, nil
	}
	return nil, fmt.Errorf("attempt %d has no stored outcome", n)
}

// bound returns the first event that binds callID to an attempt.
func (l *log) bound(callID string) (e call.Entry, attempt int, ok bool) {
	for _, e := range l.events {
		if a, ok := e.State.AttemptOf(callID); ok {
			return e, a.N, true
		}
	}
	return call.Entry{}, 0, false
}
