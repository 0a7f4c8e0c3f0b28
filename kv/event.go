package kv

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// An event travels in a header as one line of text: its fields in a fixed order, each ended by a
// bar. It is written and read with every durable write and by every follower, which is why it is
// no JSON: that took a tenth of all CPU time of a call.
//
//	1|q|1|<nonce>|<tenant>|<tool>|<id>|…
//
// The first field is the version of the form. Strings are as they are, except for bars, per cent
// signs and control characters, which are escaped as in URLs. Lists stand behind their length; what
// may be absent stands behind 0 or 1. [coder.event] lists the fields once, for both directions.
const eventForm = "1"

// EncodeEvent returns the header value of an event.
func EncodeEvent(e call.Event) string {
	c := coder{}
	c.out.Grow(512 + 512*len(e.State.Attempts))
	form := eventForm
	text(&c, &form)
	c.event(&e)
	return c.out.String()
}

// DecodeEvent reads the event of a stored message from its header.
func DecodeEvent(h nats.Header) (call.Event, error) {
	raw := h.Get(subjects.HeaderEvent)
	if raw == "" {
		return call.Event{}, errors.New("no event header")
	}
	return ParseEvent(raw)
}

// ParseEvent is the inverse of [EncodeEvent].
func ParseEvent(raw string) (call.Event, error) {
	c := coder{in: raw, reading: true, escapes: strings.IndexByte(raw, '%') >= 0}
	var form string
	text(&c, &form)
	if form != eventForm {
		return call.Event{}, fmt.Errorf("event header of form %.20q, this build reads %s", form, eventForm)
	}
	var e call.Event
	c.event(&e)
	if c.bad || c.in != "" {
		return call.Event{}, errors.New("malformed event header")
	}
	return e, nil
}

// coder writes fields to out, changing nothing, or reads them from in.
type coder struct {
	out     strings.Builder
	in      string
	reading bool
	escapes bool // there are some in what is read
	bad     bool // what was read is malformed
}

func (c *coder) event(e *call.Event) {
	text(c, &e.Kind)
	number(c, &e.Attempt)
	text(c, &e.Nonce)
	c.facts(&e.State.Facts)
	list(c, &e.State.Attempts, c.attempt)
}

func (c *coder) facts(f *call.Facts) {
	text(c, &f.Tenant)
	text(c, &f.Tool)
	text(c, &f.ID)
	text(c, &f.Fn)
	text(c, &f.Version)
	text(c, &f.Digest)
	text(c, &f.Class)
	text(c, &f.Pool)
	text(c, &f.Fingerprint)
	text(c, &f.ArgsHash)
	number(c, &f.KeepSeconds)
	c.flag(&f.DryRun)
}

func (c *coder) attempt(a *call.Attempt) {
	number(c, &a.N)
	c.owner(&a.Owner)
	list(c, &a.Joined, func(id *string) { text(c, id) })
	text(c, &a.Nonce)
	number(c, &a.Admitted)
	number(c, &a.At)
	number(c, &a.Deadline)
	text(c, &a.Priority)
	optional(c, &a.Claim, c.claim)
	optional(c, &a.Decision, c.decision)
}

func (c *coder) owner(o *call.Owner) {
	text(c, &o.CallID)
	text(c, &o.Actor)
	text(c, &o.Reply)
	text(c, &o.ContentType)
	text(c, &o.Trace)
	text(c, &o.Parent)
	text(c, &o.Run)
	text(c, &o.Role)
	text(c, &o.Lane)
}

func (c *coder) claim(k *call.Claim) {
	text(c, &k.By)
	text(c, &k.Nonce)
	number(c, &k.Fence)
	number(c, &k.Count)
}

func (c *coder) decision(d *call.Decision) {
	number(c, &d.Seq)
	text(c, &d.Nonce)
	text(c, &d.Status)
	text(c, &d.Code)
	text(c, &d.Effect)
	text(c, &d.By)
	number(c, &d.At)
	number(c, &d.Fence)
	text(c, &d.OutputHash)
}

// next reads one field as it is written.
func (c *coder) next() string {
	field := c.in
	end := strings.IndexByte(field, '|')
	if end < 0 {
		c.bad = true
		c.in = ""
		return field
	}
	c.in = field[end+1:]
	return field[:end]
}

func text[T ~string](c *coder, v *T) {
	if !c.reading {
		writeEscaped(&c.out, string(*v))
		c.out.WriteByte('|')
		return
	}
	field := c.next()
	if !c.escapes {
		*v = T(field)
		return
	}
	s, ok := unescape(field)
	*v, c.bad = T(s), c.bad || !ok
}

func number[T ~int | ~int64 | ~uint64](c *coder, v *T) {
	var digits [20]byte
	if !c.reading {
		c.out.Write(append(appendNumber(digits[:0], *v), '|'))
		return
	}
	field := c.next()
	if len(field) == 1 && '0' <= field[0] && field[0] <= '9' { // as most are
		*v = T(field[0] - '0')
		return
	}
	if n, err := strconv.ParseInt(field, 10, 64); err == nil {
		*v = T(n)
	} else {
		n, err := strconv.ParseUint(field, 10, 64)
		*v, c.bad = T(n), c.bad || err != nil
	}
	c.bad = c.bad || string(appendNumber(digits[:0], *v)) != field
}

func appendNumber[T ~int | ~int64 | ~uint64](b []byte, v T) []byte {
	if v < 0 {
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendUint(b, uint64(v), 10)
}

func (c *coder) flag(v *bool) {
	n := 0
	if *v {
		n = 1
	}
	if number(c, &n); c.reading {
		*v, c.bad = n == 1, c.bad || n != 0 && n != 1
	}
}

// list codes the elements of v with one. What is read ends when the input does, whatever the
// length says, so that a lie costs no memory.
func list[T any](c *coder, v *[]T, one func(*T)) {
	n := len(*v)
	number(c, &n)
	for i := 0; i < n && !c.bad; i++ {
		if c.reading {
			*v = append(*v, *new(T))
		}
		one(&(*v)[i])
	}
	c.bad = c.bad || n < 0
}

func optional[T any](c *coder, v **T, one func(*T)) {
	there := *v != nil
	c.flag(&there)
	if !there || c.bad {
		return
	}
	if c.reading {
		*v = new(T)
	}
	one(*v)
}

const hexDigits = "0123456789abcdef"

// special reports whether b is escaped. A header must have no line breaks, and its ends are trimmed.
func special(b byte) bool { return specials[b] }

var specials = func() (set [256]bool) {
	for b := range ' ' {
		set[b] = true
	}
	set['|'], set['%'], set[0x7f] = true, true, true
	return set
}()

func writeEscaped(out *strings.Builder, s string) {
	plain := 0
	for i := range len(s) {
		if b := s[i]; special(b) {
			out.WriteString(s[plain:i])
			out.Write([]byte{'%', hexDigits[b>>4], hexDigits[b&15]})
			plain = i + 1
		}
	}
	out.WriteString(s[plain:])
}

// unescape is the inverse of writeEscaped; ok is false for what that does not make.
func unescape(s string) (plain string, ok bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		high, low := strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
		if high < 0 || low < 0 || !special(byte(high<<4|low)) {
			return "", false
		}
		out = append(out, byte(high<<4|low))
		i += 2
	}
	return string(out), true
}
