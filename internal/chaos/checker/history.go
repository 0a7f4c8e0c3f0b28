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

// History contains everything that was recorded of a run. Asks and Cancels were recorded by callers, Effects by the
// tools, and Revoked, Held and Led by the run itself. The rest is read from the streams.
type History struct {
	Asks    []Ask
	Cancels []Cancel
	Log     []call.Entry // all events of the call log, by sequence
	Kept                 // all of AUDIT and DENIED
	Effects []effects.Line
	Dead    []Grave // all of DEAD
	Led     []Span  // when all streams had leaders
	Revoked []Revocation
	Governed
	Held []Span // when dispatchers, servers or messages to them may have been delayed
	// SlackMS is the tolerance, in milliseconds, for the timestamp of a request in the log to be later than its admission:
	// for the skew of the servers' clocks and the normal time of delivery.
	SlackMS int64
}

// Span is a period of time.
type Span struct{ From, To time.Time }

// Grave identifies the attempt of a dead letter.
type Grave struct {
	Ref     string
	Attempt int
}

// Ask is one request of one caller, with all its answers.
type Ask struct {
	Caller      string
	Actor       string
	Scene       string // which part of the plan it belongs to
	Run         string // id of the run that it names; "" if it names none
	Tool, Key   string
	CallID      string
	Ref         string // of the call log to which the request belongs
	Fingerprint string
	N           int64 // number in the input
	// Sent is the time of the request, Due its deadline, and Done the time of the answer. StalledMS is the largest delay
	// of control timers around Sent and from Due to Done, in milliseconds.
	Sent, Due, Done time.Time
	StalledMS       int64
	Accepted        []envelope.Accepted
	Answers         []*envelope.Response
	Unsent          string // why the client did not make the request
	Streamed        bool
	Door            bool // it was made through a connection of a gateway
	MCP             bool // it was made over MCP, whose answers contain less
	// Copies means that the caller published several copies of the request. Each copy has its own answers: one may be
	// refused and another be accepted.
	Copies bool
	Chunks []envelope.Chunk
}

// same reports whether the ask has the input of a log.
func (a *Ask) same(l *log) bool {
	return l.last.Fingerprint == a.Fingerprint
}

// stalled returns StalledMS as a duration.
func (a *Ask) stalled() time.Duration { return time.Duration(a.StalledMS) * time.Millisecond }

// Judged reports whether control timers were exact enough to judge the time of the answer.
func (a *Ask) Judged() bool { return a.stalled() <= exact }

// Cancel is one cancel request, with its answer.
type Cancel struct {
	Caller, Ref, CallID string
	Sent, Done          time.Time
	Told                string
	Response            *envelope.Response
	Failed              string
}

// Violation is one case of a broken promise.
type Violation struct {
	Rule   string `json:"rule"`
	Ref    string `json:"ref,omitzero"`
	CallID string `json:"call_id,omitzero"`
	Says   string `json:"says"`
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %s (call %s, ref %s)", v.Rule, v.Says, v.CallID, v.Ref)
}

// index is a History with maps by call and id.
type index struct {
	History
	logs   map[string]*log
	starts map[string][]effects.Line
	done   map[string][]effects.Line // commits
	gate   map[string]audit.Record   // by id; records without an event in the log
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

// refOf returns the reference of the call of a run. The key that a tool gets is the id of its call.
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
