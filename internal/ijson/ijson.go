package ijson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Rules that [Check] names. The first three are about what cannot be read at all.
const (
	RuleSyntax    = "syntax"    // not JSON
	RuleUTF8      = "utf8"      // invalid UTF-8 or a lone surrogate
	RuleDuplicate = "duplicate" // an object with two members of one name
	RuleInteger   = "integer"   // an integer beyond 2^53-1
	RuleNumber    = "number"    // a number that no float64 holds
	RuleDepth     = "depth"     // nested too deep
	RuleName      = "name"      // the name of a member is too long
	RuleSize      = "size"      // too many bytes
	RuleType      = "content_type"
)

// Check lists where v breaks I-JSON (RFC 7493), so where two JSON libraries could read
// different things: duplicate names, invalid UTF-8 and lone surrogates, integers beyond 2^53-1,
// numbers that no float64 holds. It also enforces MaxDepth and MaxName. It returns nil for a
// value that is fine, and stops at the first byte that is not JSON. Each message begins with the line
// and the column in v, both counted from 1, columns in characters.
func Check(v jsontext.Value) []Violation {
	if Valid(v) {
		return nil
	}
	return list(v)
}

func Valid(v jsontext.Value) bool { return IsQuick(v) || v.IsValid() && WithinLimits(v) }

// WithinLimits reports whether v, which must be valid JSON with unique names, also obeys the
// rules that a JSON parser does not know: numbers, depth, length of names.
func WithinLimits(v jsontext.Value) bool {
	depth := 0
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			end := i + StringLen(v[i:])
			if end-i > MaxName && isName(v[end:]) {
				return false
			}
			i = end - 1
		case c == '{' || c == '[':
			if depth++; depth > MaxDepth {
				return false
			}
		case c == '}' || c == ']':
			depth--
		case c == '-' || '0' <= c && c <= '9':
			n := NumberLen(v[i:])
			if numberRule(v[i:i+n]) != "" {
				return false
			}
			i += n - 1
		}
	}
	return true
}

// Depth is how deep arrays and objects are nested in v, which must be valid JSON. What becomes part
// of an envelope has MaxDepth less what is around it.
func Depth(v jsontext.Value) int {
	depth, deepest := 0, 0
	for i := 0; i < len(v); i++ {
		switch v[i] {
		case '"':
			i += StringLen(v[i:]) - 1
		case '{', '[':
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		}
	}
	return deepest
}

// StringLen returns the length of the JSON string that b starts with, quotes included.
func StringLen(b []byte) int {
	quote := 0 // the next one; looked for again only once it is passed, for strings may be all escapes
	for i := 1; i < len(b); {
		if quote < i {
			n := bytes.IndexByte(b[i:], '"')
			if n < 0 {
				break
			}
			quote = i + n
		}
		escape := bytes.IndexByte(b[i:quote], '\\')
		if escape < 0 {
			return quote + 1
		}
		i += escape + 2
	}
	return len(b)
}

// isName reports whether a string followed by rest is the name of a member.
func isName(rest []byte) bool {
	rest = bytes.TrimLeft(rest, " \t\r\n")
	return len(rest) > 0 && rest[0] == ':'
}

func NumberLen(b []byte) int {
	n := 1
	for n < len(b) && (b[n] >= '0' && b[n] <= '9' || b[n] == '.' || b[n]|0x20 == 'e' || b[n] == '+' || b[n] == '-') {
		n++
	}
	return n
}

// numberRule names the rule that a JSON number breaks, or "". A number is an integer when its
// canonical form is one, so 1e17 is refused like 100000000000000000.
func numberRule(literal []byte) string {
	if len(literal) <= 15 && !Fractional(literal) {
		return ""
	}
	f, err := strconv.ParseFloat(string(literal), 64)
	if err != nil || f == 0 && bytes.ContainsAny(mantissa(literal), "123456789") {
		return RuleNumber
	}
	// From 1e21 on the canonical form has an exponent; before, it is all digits.
	if abs := math.Abs(f); abs > MaxInteger && (abs < 1e21 || !Fractional(literal)) {
		return RuleInteger
	}
	return ""
}

// Fractional reports whether a JSON number has a fraction or an exponent.
func Fractional(literal []byte) bool {
	for _, c := range literal {
		if c == '.' || c == 'e' || c == 'E' {
			return true
		}
	}
	return false
}

func mantissa(literal []byte) []byte {
	if i := bytes.IndexAny(literal, "eE"); i >= 0 {
		return literal[:i]
	}
	return literal
}

// list walks v token by token and collects every violation. It is the slow and complete
// sibling of Valid.
func list(v jsontext.Value) []Violation {
	w := walker{
		dec: jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)),
		at:  place{text: v, line: 1, column: 1},
	}
	for len(w.found) < MaxViolations && w.step() {
	}
	return w.found
}

type walker struct {
	dec   *jsontext.Decoder
	at    place
	names []map[string]bool // of the open objects; nil for arrays
	found []Violation
}

// step reads one token and reports whether there may be more.
func (w *walker) step() bool {
	raw, err := w.next()
	if errors.Is(err, io.EOF) && w.dec.InputOffset() > 0 && len(w.names) == 0 {
		return false
	}
	if err != nil {
		w.syntax(err)
		return false
	}
	switch raw.Kind() {
	case '"':
		w.text(raw)
	case '0':
		if rule := numberRule(raw); rule != "" {
			w.report(w.start(raw), rule, "the number %s cannot be kept exactly", Clip(string(raw), 40))
		}
	}
	if w.dec.StackDepth() == 0 {
		return w.end()
	}
	return true
}

// next reads one token as it is written: a delimiter, or a whole scalar.
func (w *walker) next() (jsontext.Value, error) {
	switch kind := w.dec.PeekKind(); kind {
	case '{', '[', '}', ']':
		if _, err := w.dec.ReadToken(); err != nil {
			return nil, err
		}
		return jsontext.Value{byte(kind)}, w.nest(kind)
	}
	return w.dec.ReadValue()
}

var ErrTooDeep = fmt.Errorf("nested deeper than %d", MaxDepth)

// nest follows the brackets. Too deep ends the walk: nobody wants a hundred messages about it.
func (w *walker) nest(kind jsontext.Kind) error {
	switch kind {
	case '{':
		w.names = append(w.names, map[string]bool{})
	case '[':
		w.names = append(w.names, nil)
	default:
		w.names = w.names[:len(w.names)-1]
	}
	if len(w.names) > MaxDepth {
		return ErrTooDeep
	}
	return nil
}

func (w *walker) text(raw jsontext.Value) {
	plain, err := jsontext.AppendUnquote(nil, raw)
	depth := w.dec.StackDepth()
	if kind, n := w.dec.StackIndex(depth); kind == '{' && n%2 == 1 && len(w.names) > 0 {
		w.name(raw, string(plain))
	}
	if bad := invalidUTF8(raw); bad < len(raw) {
		w.report(w.start(raw)+bad, RuleUTF8, "the byte 0x%02x in a string is not valid UTF-8", raw[bad])
	} else if err != nil {
		w.report(w.start(raw), RuleUTF8, "a string is not valid UTF-8: it holds half of a surrogate pair")
	}
}

func (w *walker) name(raw jsontext.Value, plain string) {
	if len(plain) > MaxName {
		w.report(w.start(raw), RuleName, "the name of a member is longer than %d bytes", MaxName)
	}
	names := w.names[len(w.names)-1]
	if names[plain] {
		w.report(w.start(raw), RuleDuplicate, "the member occurs twice (a duplicate name)")
	}
	names[plain] = true
}

// start is where a token begins that has just been read.
func (w *walker) start(raw jsontext.Value) int { return int(w.dec.InputOffset()) - len(raw) }

// invalidUTF8 returns where the first byte is that is not UTF-8; the length of b if there is none.
func invalidUTF8(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}

// end makes sure that nothing follows the value.
func (w *walker) end() bool {
	end := int(w.dec.InputOffset())
	if rest := bytes.TrimLeft(w.at.text[end:], " \t\r\n"); len(rest) > 0 {
		w.report(len(w.at.text)-len(rest), RuleSyntax, "more than one JSON value")
	}
	return false
}

func (w *walker) syntax(err error) {
	if errors.Is(err, ErrTooDeep) {
		w.report(int(w.dec.InputOffset())-1, RuleDepth, "%s", ErrTooDeep)
		return
	}
	pointer, offset := w.dec.StackPointer(), w.dec.InputOffset()
	if bad, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		pointer, offset, err = bad.JSONPointer, bad.ByteOffset, bad.Err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		offset, err = int64(len(w.at.text)), errCut
	}
	text := fmt.Sprintf("%s: not JSON: %v", w.at.move(int(offset)), err)
	w.found = append(w.found, NewViolation(string(pointer), RuleSyntax, text))
}

var errCut = errors.New("it ends here, before the value does")

func (w *walker) report(offset int, rule, format string, args ...any) {
	text := w.at.move(offset).String() + ": " + fmt.Sprintf(format, args...)
	w.found = append(w.found, NewViolation(string(w.dec.StackPointer()), rule, text))
}
