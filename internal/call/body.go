package call

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// RequestBody is the body of a Requested event: the request, and the outcomes of earlier attempts, so that they are
// kept as long as the newest attempt.
type RequestBody struct {
	InputRef string    `json:"input_ref,omitzero"` // reference of an input in the payload store
	Earlier  []Outcome `json:"earlier,omitempty"`
	// WriteTargets are the beginnings of targets to which the tool may write; none means every target.
	WriteTargets []string       `json:"write_targets,omitempty"`
	Request      jsontext.Value `json:"request"` // the last member that this build writes; see Encode
	Extra        extra          `json:",embed"`
}

// extra holds unknown members. They are kept, and written again.
type extra = map[string]jsontext.Value

// OutcomeBody is the body of a Decided event.
type OutcomeBody struct {
	Earlier  []Outcome      `json:"earlier,omitempty"`
	Response jsontext.Value `json:"response"` // the last member that this build writes; see EncodeOutcome
	Extra    extra          `json:",embed"`
}

// Most bodies hold only the request or the response. They begin with one of these texts and end with a brace.
const (
	onlyRequest  = `{"request":`
	onlyResponse = `{"response":`
)

// roomForHead is the initial capacity, in bytes, for a body without its output.
const roomForHead = 1 << 10

// OnlyRequest returns the request of a body that seems to hold nothing else. It does not check that the result is one
// JSON value: the caller must do that.
func OnlyRequest(body []byte) (request jsontext.Value, ok bool) { return inside(onlyRequest, body) }

func inside(start string, body []byte) (document jsontext.Value, ok bool) {
	if len(body) <= len(start) || string(body[:len(start)]) != start || body[len(body)-1] != '}' {
		return nil, false
	}
	end := len(body) - 1
	return body[len(start):end:end], true
}

// Encode returns the body as JSON. The request must be valid JSON; Encode does not check it, because it can be large.
func (b RequestBody) Encode() ([]byte, error) {
	if b.InputRef == "" && len(b.Earlier) == 0 && len(b.WriteTargets) == 0 && len(b.Extra) == 0 {
		return bytes.Join([][]byte{[]byte(onlyRequest), b.Request, []byte("}")}, nil), nil
	}
	return json.Marshal(b)
}

// EncodeOutcome returns the body of a Decided event: its response, and the outcomes of earlier attempts. The output of
// the response must be valid JSON; EncodeOutcome does not check it, because it can be large.
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

// unwrap returns the document of a body that holds nothing else. ok is false for any other body.
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

// Outcome is the stored response of one attempt. Seq is the sequence of its decision.
type Outcome struct {
	Attempt  int            `json:"attempt"`
	Seq      uint64         `json:"seq"`
	Response jsontext.Value `json:"response"`
	Extra    extra          `json:",embed"`
}

// Entry is a stored event with the state after it.
type Entry struct {
	State   State
	Kind    Kind
	Attempt int
	Body    []byte
	Time    time.Time // bus time of the write
}

// Outcomes returns all stored responses that the entry holds, oldest first. The next Requested or Decided event must
// contain them. Joined and Claimed entries hold none.
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

// Outcome returns the stored response of attempt n. ok is false if the entry does not hold it.
func (e Entry) Outcome(n int) (o Outcome, ok bool, err error) {
	all, err := e.Outcomes()
	for _, o := range all {
		if o.Attempt == n {
			return o, true, err
		}
	}
	return Outcome{}, false, err
}

// Errors of a log.
var (
	// ErrFull means that the log has no room. Admissions are refused, decisions are tried again.
	ErrFull = errors.New("call log is full")
	// ErrTooLarge means that the event exceeds the largest message of the server. It is not in the log, and never will be.
	ErrTooLarge = errors.New("event is larger than the server takes")
	// ErrUnsure means that the event may or may not be in the log, which could not be read. Do not treat it as "not
	// written".
	ErrUnsure = errors.New("outcome of the write is unknown")
)

// ConflictError is the error of a write whose compare-and-set failed. State is the current state of the log.
type ConflictError struct{ State State }

func (m *ConflictError) Error() string { return fmt.Sprintf("call log moved to %d", m.State.Seq) }

// Expiry determines the TTLs of events. The zero value is not useful; see [DefaultExpiry].
type Expiry struct {
	Grace  time.Duration // time for which a request is kept after its deadline
	Margin time.Duration // time for which an outcome is kept longer than the request
}

// DefaultExpiry keeps requests ten minutes past their deadline, and outcomes an hour longer.
var DefaultExpiry = Expiry{Grace: 10 * time.Minute, Margin: time.Hour}

// TTL returns the TTL of e in whole seconds, at least 1 s. The event that opens the log is kept until its deadline plus
// Grace. Every later event is kept longer than all earlier ones, and at least for the retention of the call: the last
// event holds the state, so if a later event expired first, a decided attempt would look open, or would seem never to
// have existed. If the log is [Pinned.Bound], its requests are kept for the retention of the outcomes, too, because
// readers need them to tell valid claims and decisions from others.
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

// request returns the time from the admission of a to its deadline plus Grace.
func (x Expiry) request(a Attempt) time.Duration { return a.Due().Sub(a.At.Time()) + x.Grace }

func ceilSecond(d time.Duration) time.Duration {
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}

// PolicyNote has the digests of a policy set in a short form, for the header of events: three SHA-256 in base64, with
// dots between them. It is "" if no policy decided.
type PolicyNote string

// NotePolicy returns the short form of the digests of a policy set.
func NotePolicy(v envelope.PolicyVersions) PolicyNote {
	if v == (envelope.PolicyVersions{}) {
		return ""
	}
	var room [3*noteDigits + 2]byte
	note := room[:0]
	for _, digest := range [...]string{v.Roles, v.Lanes, v.ToolRegistry} {
		var sum [hashBytes]byte
		if n, err := hex.Decode(sum[:], []byte(digest[:min(len(digest), 2*hashBytes)])); err != nil || n != hashBytes {
			return PolicyNote(v.Roles + "." + v.Lanes + "." + v.ToolRegistry) // no dispatcher writes this
		}
		if len(note) > 0 {
			note = append(note, '.')
		}
		note = base64.RawURLEncoding.AppendEncode(note, sum[:])
	}
	return PolicyNote(note)
}

const (
	hashBytes  = 32
	noteDigits = 43 // of a hash in base64
)

// Versions returns the digests in hexadecimal.
func (n PolicyNote) Versions() (v envelope.PolicyVersions) {
	if n == "" {
		return v
	}
	roles, rest, _ := strings.Cut(string(n), ".")
	lanes, registry, _ := strings.Cut(rest, ".")
	if len(n) == 3*noteDigits+2 {
		var text [3 * 2 * hashBytes]byte
		if longHash(text[:], roles) && longHash(text[2*hashBytes:], lanes) && longHash(text[4*hashBytes:], registry) {
			all := string(text[:])
			return envelope.PolicyVersions{
				Roles: all[:2*hashBytes], Lanes: all[2*hashBytes : 4*hashBytes], ToolRegistry: all[4*hashBytes:],
			}
		}
	}
	return envelope.PolicyVersions{Roles: roles, Lanes: lanes, ToolRegistry: registry} // no dispatcher writes this
}

// longHash writes a hash in base64 to text, in hexadecimal.
func longHash(text []byte, digest string) (ok bool) {
	var sum [hashBytes]byte
	if len(digest) != noteDigits {
		return false
	}
	if _, err := base64.RawURLEncoding.Strict().Decode(sum[:], []byte(digest)); err != nil {
		return false
	}
	hex.Encode(text, sum[:])
	return true
}
