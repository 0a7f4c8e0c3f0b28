package kv

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// The enumerations of an event. They are written by number, counted from 1 in this order: a value may be added at
// an end, in the next form, and none may ever move.
var (
	classes    = []call.EffectClass{call.Pure, call.Idempotent, call.SideEffectful}
	priorities = []envelope.Priority{envelope.PriorityNormal, envelope.PriorityHigh, envelope.PriorityLow}
	contents   = []string{envelope.ContentJSON, envelope.ContentMsgpack}
	statuses   = []envelope.Status{envelope.Success, envelope.RetryableError, envelope.TerminalError,
		envelope.InvalidRequest}
	effects  = []envelope.Effect{envelope.EffectNone, envelope.EffectApplied, envelope.EffectUnknown}
	lookups  = []call.Lookup{call.LookupYes, call.LookupNo}
	deciders = []call.Decider{call.ByExecutor, call.ByDeadline, call.ByCanceller, call.ByDispatcher}
	answers  = []call.LookupAnswer{call.LookupAbsent, call.LookupFailed, call.LookupUndeclared, call.LookupLocked}
)

// enum codes a value of an enumeration. One that is not in the table is written as text; a number that is
// not there was written by a newer build.
func enum[T ~string](c *coder, v *T, table []T) {
	if !c.reading {
		n := slices.Index(table, *v) + 1
		if n > 0 || *v == "" {
			number(c, &n)
			return
		}
		c.out = appendEscaped(append(c.out, '|', '='), string(*v))
		return
	}
	field := c.field()
	if said, isText := strings.CutPrefix(field, "="); isText {
		*v = T(c.plain(said))
		c.bad = c.bad || *v == "" || slices.Contains(table, *v)
		return
	}
	if field == "" {
		*v = ""
		return
	}
	n, err := strconv.Atoi(field)
	switch {
	case err != nil || n < 1 || strconv.Itoa(n) != field:
		c.bad = true
	case n > len(table):
		c.unknown = &format.Error{Kind: format.Event, Version: format.Event.Current(), Detail: fmt.Sprintf("%T %d", *v, n)}
	default:
		*v = table[n-1]
	}
}

// How a hash is written, by its first byte.
const (
	otherHash  = '=' // as it is
	hashDigits = 64
	maxName    = len("sha256:") // the longest of hashNames
)

// hashNames are what may stand before 64 hex digits, and the byte that says so.
var hashNames = [...]struct {
	kind byte
	name string
}{{'.', ""}, {':', "sha256:"}, {'@', envelope.ByArguments}}

// hash codes a SHA-256 in hex, as base64. One of hashNames may stand before it.
func hash(c *coder, v *string) {
	if !c.reading {
		c.out = appendHash(append(c.out, '|'), *v)
		return
	}
	field := c.field()
	if field == "" {
		*v = ""
		return
	}
	if kind, said := field[0], field[1:]; kind == otherHash {
		*v = c.plain(said)
		c.bad = c.bad || string(appendHash(nil, *v)) != field
	} else {
		*v = c.sum(said, kind)
	}
}

// sum returns a hash of one of the usual kinds. There are several in every event, which share an allocation.
func (c *coder) sum(said string, kind byte) string {
	var sum [hashDigits / 2]byte
	var text [maxName + hashDigits]byte
	named, ok := 0, false
	for _, known := range hashNames {
		if known.kind == kind {
			named, ok = copy(text[:], known.name), true
		}
	}
	if ok = ok && len(said) == base64.RawStdEncoding.EncodedLen(len(sum)); ok {
		_, err := base64.RawStdEncoding.Strict().Decode(sum[:], []byte(said))
		ok = err == nil
	}
	if c.bad = c.bad || !ok; c.bad {
		return ""
	}
	hex.Encode(text[named:], sum[:])
	if c.sums.Cap()-c.sums.Len() < named+hashDigits {
		c.sums = strings.Builder{}
		c.sums.Grow(4 * (maxName + hashDigits))
	}
	at := c.sums.Len()
	c.sums.Write(text[:named+hashDigits])
	return c.sums.String()[at:]
}

func appendHash(b []byte, v string) []byte {
	if v == "" {
		return b
	}
	var kind byte
	var digits string
	for _, known := range hashNames {
		if rest, ok := strings.CutPrefix(v, known.name); ok {
			kind, digits = known.kind, rest
		}
	}
	var sum [hashDigits / 2]byte
	_, err := hex.Decode(sum[:], []byte(digits[:min(len(digits), hashDigits)]))
	if len(digits) != hashDigits || err != nil || strings.ToLower(digits) != digits {
		return appendEscaped(append(b, otherHash), v)
	}
	return base64.RawStdEncoding.AppendEncode(append(b, kind), sum[:])
}
