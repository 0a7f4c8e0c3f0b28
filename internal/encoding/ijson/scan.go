package ijson

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// The rules of [Check].
const (
	RuleSyntax    = "syntax"    // not JSON
	RuleUTF8      = "utf8"      // invalid UTF-8 or a lone surrogate
	RuleDuplicate = "duplicate" // an object with two members of one name
	RuleInteger   = "integer"   // an integer beyond 2^53-1
	RuleNumber    = "number"    // a number that no float64 holds
	RuleDepth     = "depth"     // nested too deep
	RuleName      = "name"      // the name of a member is too long
)

// Text holds the properties of a JSON text. If there are violations of syntax or depth, the other fields describe only
// the text before them.
type Text struct {
	Violations []Violation // nil if v is valid
	Depth      int         // nesting of arrays and objects
	Values     int         // upper estimate of the number of values; the member counts as one value
	Canonical  bool        // true: certainly in canonical form; false: unknown
	Start, End int         // offsets of the value of the member; 0 without one
}

// Check lists where v breaks I-JSON, so that two JSON libraries could read it differently: duplicate names, invalid
// UTF-8 and lone surrogates, integers beyond 2^53-1, numbers that no float64 holds. It also enforces MaxDepth and
// MaxName. It returns nil for a valid value, and stops at the first byte that is not JSON. Each message begins with the
// line and the column in v, both counted from 1, columns in characters.
func Check(v jsontext.Value) []Violation { return Scan(v, "").Violations }

// Valid reports whether [Check] finds nothing.
func Valid(v jsontext.Value) bool {
	s := scanner{text: v}
	return s.whole()
}

// Depth returns the nesting of arrays and objects in v. A value that becomes part of an envelope may have MaxDepth
// minus the levels around it.
func Depth(v jsontext.Value) int { return Scan(v, "").Depth }

// Scan reads v once. It also finds the first member of the outermost object whose name is written exactly as member.
func Scan(v jsontext.Value, member string) Text {
	s := scanner{text: v, member: member, said: Text{Values: 1, Canonical: true}}
	if !s.whole() {
		return list(v, member)
	}
	return s.said
}

// list is Scan for an invalid text. It continues after a violation if it can.
func list(v jsontext.Value, member string) Text {
	r := &report{at: place{text: v, line: 1, column: 1}}
	s := scanner{text: v, member: member, said: Text{Values: 1}, report: r}
	if !s.whole() && !r.over {
		r.syntax()
	}
	s.said.Violations = r.found
	return s.said
}

// Split returns v with null in place of the member that Scan found, and that member. t must be the result of Scan for
// v. rest is new memory; member shares the memory of v.
func (t Text) Split(v jsontext.Value) (rest, member jsontext.Value) {
	return bytes.Join([][]byte{v[:t.Start], null, v[t.End:]}, nil), v[t.Start:t.End:t.End]
}

var null = []byte("null")

// scanner reads a text. Its methods return the end of the value at i, or bad to stop. Without a report it stops at the
// first broken rule.
type scanner struct {
	text   []byte
	member string
	said   Text
	report *report

	depth int
	marks [MaxDepth]int // per open object the index of its first name; per open array -1 minus the index of its item
	open  int           // number of names of all open objects
	names [64]span      // the first of these names
	more  []span        // names that do not fit into names
}

// span is the position of a quoted string in the text. A slice would cost an allocation.
type span struct{ start, end int }

const bad = -1

// broken reports a broken rule, and returns whether to continue.
func (s *scanner) broken(at int, rule, format string, args ...any) bool {
	return s.report != nil && s.report.add(at, s.pointer(), rule, fmt.Sprintf(format, args...))
}

func (s *scanner) whole() bool {
	end := s.value(s.space(0))
	if end == bad {
		return false
	}
	if rest := s.space(end); rest < len(s.text) {
		return s.broken(rest, RuleSyntax, "more than one JSON value")
	}
	return true
}

// space skips white space, which a canonical text does not have.
func (s *scanner) space(i int) int {
	end := SkipSpace(s.text, i)
	s.said.Canonical = s.said.Canonical && end == i
	return end
}

func (s *scanner) is(i int, c byte) bool { return i < len(s.text) && s.text[i] == c }

func (s *scanner) value(i int) int {
	if i >= len(s.text) {
		return bad
	}
	switch s.text[i] {
	case '{':
		return s.nested(i, '}')
	case '[':
		return s.nested(i, ']')
	case '"':
		return s.quote(i)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	}
	return s.number(i)
}

func (s *scanner) literal(i int, want string) int {
	if end := i + len(want); end <= len(s.text) && string(s.text[i:end]) == want {
		return end
	}
	return bad
}

// nested reads an object or array up to its closing bracket.
func (s *scanner) nested(i int, closing byte) int {
	if s.depth == MaxDepth { // report it once only
		s.broken(i, RuleDepth, "%s", ErrTooDeep)
		return s.stop()
	}
	first := s.open
	s.marks[s.depth] = first
	if closing == ']' {
		s.marks[s.depth] = bad
	}
	s.depth++
	s.said.Depth = max(s.said.Depth, s.depth)
	s.said.Values++
	i = s.space(i + 1)
	if !s.is(i, closing) {
		i = s.items(i, closing)
	}
	if i == bad {
		return bad
	}
	s.depth--
	s.open = first
	return i + 1
}

// ErrTooDeep means that a value is nested deeper than MaxDepth.
var ErrTooDeep = fmt.Errorf("nested deeper than %d", MaxDepth)

// stop ends the scan without further reports.
func (s *scanner) stop() int {
	if s.report != nil {
		s.report.over = true
	}
	return bad
}

// items reads the items between brackets, at least one, and returns the offset of the closing bracket.
func (s *scanner) items(i int, closing byte) int {
	var seen map[string]bool // names of the object, if it has many or escaped names
	for {
		if closing == ']' {
			s.marks[s.depth-1]--
			i = s.value(i)
		} else {
			i = s.entry(i, &seen)
		}
		if i == bad {
			return bad
		}
		switch i = s.space(i); {
		case s.is(i, closing):
			return i
		case !s.is(i, ','):
			return bad
		}
		s.said.Values++
		i = s.space(i + 1)
	}
}

// entry reads a member of the innermost open object.
func (s *scanner) entry(i int, seen *map[string]bool) int {
	if !s.is(i, '"') {
		return bad
	}
	name := s.quoted(i)
	if name.end == bad || !s.name(span{i, name.end}, name.plain, seen) || !s.isUTF8(i, name) {
		return bad
	}
	start := i
	if i = s.space(name.end); !s.is(i, ':') {
		return bad
	}
	if i = s.space(i + 1); s.depth == 1 && s.said.End == 0 && string(s.text[start+1:name.end-1]) == s.member {
		return s.found(i)
	}
	return s.value(i)
}

// found reads the value of the member that Scan looks for.
func (s *scanner) found(i int) int {
	values := s.said.Values
	if s.is(i, '{') || s.is(i, '[') {
		values++
	}
	end := s.value(i)
	if end != bad && s.member != "" {
		s.said.Start, s.said.End, s.said.Values = i, end, values
	}
	return end
}

func (s *scanner) quote(i int) int {
	q := s.quoted(i)
	if q.end == bad || !s.isUTF8(i, q) {
		return bad
	}
	return q.end
}

func (s *scanner) number(start int) int {
	i := start
	if s.is(i, '-') {
		i++
	}
	if s.is(i, '0') {
		i++
	} else if i = s.digits(i); i == bad {
		return bad
	}
	whole := i
	if s.is(i, '.') {
		if i = s.digits(i + 1); i == bad {
			return bad
		}
	}
	if s.is(i, 'e') || s.is(i, 'E') {
		if i++; s.is(i, '+') || s.is(i, '-') {
			i++
		}
		if i = s.digits(i); i == bad {
			return bad
		}
	}
	literal := s.text[start:i]
	s.said.Canonical = s.said.Canonical && i == whole && string(literal) != "-0"
	rule := numberRule(literal, i == whole)
	if rule != "" && !s.broken(start, rule, "the number %s cannot be kept exactly: %s",
		Clip(string(literal), 40), instead(rule)) {
		return bad
	}
	return i
}

// instead says what to write in the place of a number that breaks a rule.
func instead(rule string) string {
	if rule == RuleInteger {
		return "write it as text, or an integer of at most 2^53-1"
	}
	return "write it as text"
}

// digits reads at least one digit.
func (s *scanner) digits(i int) int {
	start := i
	for i < len(s.text) && '0' <= s.text[i] && s.text[i] <= '9' {
		i++
	}
	if i == start {
		return bad
	}
	return i
}

// numberRule returns the rule that a JSON number breaks, or "". A number counts as an integer if its canonical form is
// one, so 1e17 is refused like 100000000000000000.
func numberRule(literal []byte, whole bool) string {
	if whole && len(literal) <= 15 {
		return ""
	}
	f, err := strconv.ParseFloat(string(literal), 64)
	mantissa, _, _ := bytes.Cut(bytes.ToLower(literal), []byte("e"))
	if err != nil || f == 0 && bytes.ContainsAny(mantissa, "123456789") {
		return RuleNumber
	}
	// From 1e21 on, the canonical form has an exponent. Below, it has only digits.
	if abs := math.Abs(f); abs > MaxInteger && (abs < 1e21 || whole) {
		return RuleInteger
	}
	return ""
}
