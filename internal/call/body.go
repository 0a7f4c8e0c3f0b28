package call

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// RequestBody is the body of a Requested event: the canonical request, and the outcomes of
// earlier attempts, so that they live as long as the newest one.
type RequestBody struct {
	InputRef string         `json:"input_ref,omitzero"` // where a large input lies
	Earlier  []Outcome      `json:"earlier,omitempty"`
	Request  jsontext.Value `json:"request"` // last but for what a newer build has added; see Encode
	Extra    extra          `json:",embed"`
}

// extra are members that this build does not know. They are kept and written on.
type extra = map[string]jsontext.Value

// OutcomeBody is the body of a Decided event.
type OutcomeBody struct {
	Earlier  []Outcome      `json:"earlier,omitempty"`
	Response jsontext.Value `json:"response"` // as in [RequestBody]; see EncodeOutcome
	Extra    extra          `json:",embed"`
}

// Bodies that hold one document and nothing else, as nearly all do, begin with its name and end with a
// brace.
const (
	onlyRequest  = `{"request":`
	onlyResponse = `{"response":`
)

// roomForHead is the size of most bodies without their output.
const roomForHead = 1 << 10

// OnlyRequest returns the request of a body that may hold nothing else, without looking at it: that
// it is one document is for its reader to find out.
func OnlyRequest(body []byte) (request jsontext.Value, ok bool) { return inside(onlyRequest, body) }

func inside(start string, body []byte) (document jsontext.Value, ok bool) {
	if len(body) <= len(start) || string(body[:len(start)]) != start || body[len(body)-1] != '}' {
		return nil, false
	}
	end := len(body) - 1
	return body[len(start):end:end], true
}

// Encode returns the body as JSON. The request, which can be large, is taken to be valid: it was
// decoded before.
func (b RequestBody) Encode() ([]byte, error) {
	if b.InputRef == "" && len(b.Earlier) == 0 && len(b.Extra) == 0 {
		return bytes.Join([][]byte{[]byte(onlyRequest), b.Request, []byte("}")}, nil), nil
	}
	return json.Marshal(b)
}

// EncodeOutcome returns the body of a Decided event: its response, and the outcomes that it carries. The
// response, whose output can be large, is taken to be valid: it was decoded, or made of what was checked.
func EncodeOutcome(r *envelope.Response, earlier []Outcome) ([]byte, error) {
	if len(earlier) == 0 {
		body, err := envelope.AppendResponse(append(make([]byte, 0, roomForHead+len(r.Output)), onlyResponse...), r)
		return append(body, '}'), err
	}
	raw, err := envelope.AppendResponse(nil, r)
	if err != nil {
		return nil, err
	}
	return OutcomeBody{Response: raw, Earlier: earlier}.Encode()
}

// Encode returns the body as JSON; see [EncodeOutcome].
func (b OutcomeBody) Encode() ([]byte, error) { return json.Marshal(b) }

// unwrap returns the one document of a body; ok is false for a body that holds more.
func unwrap(start string, body []byte) (document jsontext.Value, ok bool) {
	document, ok = inside(start, body)
	return document, ok && ijson.Check(document) == nil
}

// DecodeRequestBody is the inverse of [RequestBody.Encode]. The request shares the memory of data.
func DecodeRequestBody(data []byte) (b RequestBody, err error) {
	var ok bool
	if b.Request, ok = unwrap(onlyRequest, data); ok {
		return b, nil
	}
	b = RequestBody{}
	return b, json.Unmarshal(data, &b)
}

func decodeOutcomeBody(data []byte) (b OutcomeBody, err error) {
	var ok bool
	if b.Response, ok = unwrap(onlyResponse, data); ok {
		return b, nil
	}
	b = OutcomeBody{}
	return b, json.Unmarshal(data, &b)
}

// Outcome is the stored response of one attempt; Seq is the position of its decision.
type Outcome struct {
	Attempt  int            `json:"attempt"`
	Seq      uint64         `json:"seq"`
	Response jsontext.Value `json:"response"`
	Extra    extra          `json:",embed"`
}

// Entry is an event as it is stored: the folded state, its kind and its body.
type Entry struct {
	State   State
	Kind    Kind
	Attempt int
	Body    []byte
	Time    time.Time // bus time of the write
}

// Outcomes returns every stored response that the entry holds, oldest first: what the next
// event of the log has to carry forward. Joined and Claimed entries hold none.
func (e Entry) Outcomes() ([]Outcome, error) {
	if len(e.Body) == 0 {
		return nil, nil
	}
	body, err := decodeOutcomeBody(e.Body)
	if err != nil {
		return nil, fmt.Errorf("outcome body: %w", err)
	}
	if e.Kind != Decided {
		return body.Earlier, nil
	}
	a, _ := e.State.Attempt(e.Attempt)
	if a.Decision == nil {
		return nil, fmt.Errorf("outcome of attempt %d, which the state does not know as decided", e.Attempt)
	}
	return append(body.Earlier, Outcome{Attempt: e.Attempt, Seq: a.Decision.Seq, Response: body.Response}), nil
}

// Outcome returns the stored response of attempt n; ok is false when the entry does not hold it.
func (e Entry) Outcome(n int) (o Outcome, ok bool, err error) {
	all, err := e.Outcomes()
	for _, o := range all {
		if o.Attempt == n {
			return o, true, err
		}
	}
	return Outcome{}, false, err
}

// What a log answers besides the written state.
var (
	// ErrFull means that the store takes no more; admission refuses, decisions try again.
	ErrFull = errors.New("call log is full")
	// ErrTooLarge means that the event is larger than a server takes: it is not in the log, and never
	// will be.
	ErrTooLarge = errors.New("event is larger than the server takes")
	// ErrUnsure means that the write may or may not have happened and the log could not be
	// read. It is never to be taken for "not written".
	ErrUnsure = errors.New("outcome of the write is unknown")
)

// ConflictError is the error of a write whose expectation no longer holds. State is the log as found.
type ConflictError struct{ State State }

func (m *ConflictError) Error() string { return fmt.Sprintf("call log moved to %d", m.State.Seq) }

// Expiry bounds how long events are kept. The zero value is not useful; see DefaultExpiry.
type Expiry struct {
	Grace  time.Duration // how long a request outlives its deadline
	Margin time.Duration // how long an outcome outlives the request
}

// DefaultExpiry keeps requests ten minutes past their deadline, and outcomes an hour longer.
var DefaultExpiry = Expiry{Grace: 10 * time.Minute, Margin: time.Hour}

// TTL returns how long e is kept, in whole seconds, at least one. The event that opens the log
// lives until its deadline plus grace. Every other one outlives all that came before it, and the
// retention of the call: the last event is the state, so if a later one went first, a decided
// attempt would look open, or as if it had never been. Of a log that is [Pinned.Bound] the requests live
// through the retention of the outcomes, too: they tell the claims and decisions that count from others.
func (x Expiry) TTL(e Event) time.Duration {
	a, ok := e.State.Attempt(e.Attempt)
	if !ok {
		return time.Second
	}
	if e.Kind == Requested && a.N == 1 && !e.State.Bound() {
		return ceilSecond(x.request(a))
	}
	keep, request := time.Duration(e.State.KeepSeconds)*time.Second, time.Duration(0)
	for _, a := range e.State.Attempts {
		request = max(request, x.request(a))
	}
	keep = max(keep, request+x.Margin)
	if e.State.Bound() {
		keep += request
	}
	return ceilSecond(keep)
}

// request returns how long the event that opened a is of use: until its deadline plus grace.
func (x Expiry) request(a Attempt) time.Duration { return a.Due().Sub(a.At.Time()) + x.Grace }

func ceilSecond(d time.Duration) time.Duration {
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}
