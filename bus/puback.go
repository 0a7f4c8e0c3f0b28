package bus

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// statusNoResponders is the server's word that nobody listens on a subject: no stream does.
const statusNoResponders = "503"

// ackAnswer is what a server says of a message that was published.
type ackAnswer struct {
	Stream    string              `json:"stream"`
	Sequence  uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Error     *jetstream.APIError `json:"error"`
}

// readAck reads the answer of a server as the library does.
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

// fastAck reads an answer in the words, and the order, that servers use; not ok are all others, which are for the
// library of JSON.
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

// ackScanner reads JSON text of the plainest kind. It is odd from the first byte on that is anything else.
type ackScanner struct {
	rest  []byte
	later bool // a member of this object has been read
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

// word skips what must be next.
func (s *ackScanner) word(w string) {
	if len(s.rest) < len(w) || string(s.rest[:len(w)]) != w {
		s.odd = true
		return
	}
	s.rest = s.rest[len(w):]
}

// member reports whether this member is next, and goes on to its value if so. The name has its quotes and colon.
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

// text reads a text without escapes, in ASCII.
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

// number reads a whole number of at most 18 digits, which fits into all integers of 64 bits.
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

// refusal reads what a server refuses with.
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
