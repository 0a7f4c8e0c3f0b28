package bus

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// statusNoResponders is the status with which the server answers a request to a subject without subscribers. For a
// published message it means that no stream has the subject.
const statusNoResponders = "503"

// ackAnswer is the JSON acknowledgement of a published message: its place in the stream, or the error.
type ackAnswer struct {
	Stream    string              `json:"stream"`
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Error     *jetstream.APIError `json:"error"`
}

// readAck reads an acknowledgement. It returns the same errors as package jetstream.
func readAck(msg *nats.Msg) ackResult {
	if len(msg.Data) == 0 && msg.Header.Get("Status") == statusNoResponders {
		return ackResult{err: jetstream.ErrNoStreamResponse}
	}
	if r, ok := fastAck(msg.Data); ok {
		return r
	}
	var a ackAnswer
	switch err := json.Unmarshal(msg.Data, &a); {
	case err == nil && a.Error != nil:
		return ackResult{err: fmt.Errorf("nats: %w", a.Error)}
	case err != nil || a.Stream == "":
		return ackResult{err: jetstream.ErrInvalidJSAck}
	}
	return ackResult{ack: PubAck{Sequence: a.Sequence, Duplicate: a.Duplicate}}
}

// fastAck parses an acknowledgement with the members, and in the order, that NATS servers write. ok is false for any
// other text: then use the general JSON decoder.
func fastAck(data []byte) (r ackResult, ok bool) {
	s := ackScanner{rest: data}
	s.open()
	if s.member(`"error":`) {
		r.err = fmt.Errorf("nats: %w", s.refusal())
	}
	stream := s.member(`"stream":`) && len(s.text()) > 0
	if s.member(`"domain":`) {
		s.text()
	}
	if s.member(`"seq":`) {
		r.ack.Sequence = s.number()
	}
	if s.member(`"domain":`) {
		s.text()
	}
	if s.member(`"duplicate":`) {
		s.word("true")
		r.ack.Duplicate = true
	}
	s.close()
	if s.odd || len(s.rest) > 0 || !stream && r.err == nil {
		return ackResult{}, false
	}
	return r, true
}

// ackScanner parses objects of ASCII strings without escapes, of numbers and of true. At the first other byte it sets
// odd, which stays set.
type ackScanner struct {
	rest  []byte
	later bool // a member of this object has been read: a comma precedes the next one
	odd   bool
}

func (s *ackScanner) open() {
	s.word("{")
	s.later = false
}

func (s *ackScanner) close() {
	s.word("}")
	s.later = true
}

// word skips w, which must be next.
func (s *ackScanner) word(w string) {
	if len(s.rest) < len(w) || string(s.rest[:len(w)]) != w {
		s.odd = true
		return
	}
	s.rest = s.rest[len(w):]
}

// member reports whether the member of that name is next, and if so skips to its value. name includes quotes and colon.
func (s *ackScanner) member(name string) bool {
	ahead := *s
	if s.later {
		ahead.word(",")
	}
	if ahead.word(name); ahead.odd {
		return false
	}
	*s = ahead
	s.later = true
	if len(s.rest) > 0 && s.rest[0] == ' ' {
		s.rest = s.rest[1:]
	}
	return true
}

// text reads an ASCII string without escapes.
func (s *ackScanner) text() (text []byte) {
	s.word(`"`)
	end := bytes.IndexByte(s.rest, '"')
	if end < 0 {
		s.odd = true
		return nil
	}
	text, s.rest = s.rest[:end], s.rest[end+1:]
	for _, c := range text {
		s.odd = s.odd || c < ' ' || c >= 0x7f || c == '\\'
	}
	return text
}

// number reads an integer of at most 18 digits, which fits into a uint64 and an int64.
func (s *ackScanner) number() (n uint64) {
	digits := 0
	for digits < len(s.rest) && '0' <= s.rest[digits] && s.rest[digits] <= '9' {
		n = 10*n + uint64(s.rest[digits]-'0')
		digits++
	}
	if digits == 0 || digits > 18 || digits > 1 && s.rest[0] == '0' {
		s.odd = true
	}
	s.rest = s.rest[digits:]
	return n
}

// refusal reads the error object of an acknowledgement.
func (s *ackScanner) refusal() *jetstream.APIError {
	var e jetstream.APIError
	s.open()
	if s.member(`"code":`) {
		e.Code = int(s.number())
	}
	if s.member(`"err_code":`) {
		code := s.number()
		e.ErrorCode = jetstream.ErrorCode(code)
		s.odd = s.odd || uint64(e.ErrorCode) != code
	}
	if s.member(`"description":`) {
		e.Description = string(s.text())
	}
	s.close()
	return &e
}
