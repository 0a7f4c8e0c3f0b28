package ijson

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

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
)

// Text is what one walk says of a JSON text. Where there are violations of syntax or depth, all else is said of what
// lies before them.
type Text struct {
	Violations []Violation // nil where all is well
	Depth      int         // of the arrays and objects
	Values     int         // about how many there are, and no fewer; what is in the member counts as one
	Canonical  bool        // certainly in canonical form; false says nothing
	Start, End int         // of the value of the member; 0 where there is none
}

// Check lists where v breaks I-JSON, so where two JSON libraries could read different things: duplicate names,
// invalid UTF-8 and lone surrogates, integers beyond 2^53-1, numbers that no float64 holds. It also enforces
// MaxDepth and MaxName. It returns nil for a value that is fine, and stops at the first byte that is not JSON. Each
// message begins with the line and the column in v, both counted from 1, columns in characters.
func Check(v jsontext.Value) []Violation { return Scan(v, "").Violations }

// Valid reports whether [Check] finds nothing.
func Valid(v jsontext.Value) bool {
	s := scanner{text: v}
	return s.whole()
}

// Depth is how deep arrays and objects are nested in v. What becomes part of an envelope has MaxDepth less what is
// around it.
func Depth(v jsontext.Value) int { return Scan(v, "").Depth }

// Scan walks v. The first member of this name of the whole, as it is written, is found on the way.
func Scan(v jsontext.Value, member string) Text {
	s := scanner{text: v, member: member, said: Text{Values: 1, Canonical: true}}
	if !s.whole() {
		return list(v, member)
	}
	return s.said
}

// list is Scan for a text that is not fine: it goes on behind what is wrong.
func list(v jsontext.Value, member string) Text {
	r := &report{at: place{text: v, line: 1, column: 1}}
	s := scanner{text: v, member: member, said: Text{Values: 1}, report: r}
	if !s.whole() && !r.over {
		r.syntax()
	}
	s.said.Violations = r.found
	return s.said
}

// Split returns v, of which t was said, with null in the place of its member, and that. What is returned is new, and
// a part of v.
func (t Text) Split(v jsontext.Value) (rest, member jsontext.Value) {
	return bytes.Join([][]byte{v[:t.Start], null, v[t.End:]}, nil), v[t.Start:t.End:t.End]
}

var null = []byte("null")

// scanner walks a text. Its methods return where what starts at i ends; bad stops it. Without a report it stops at
// the first broken rule.
type scanner struct {
	text   []byte
	member string
	said   Text
	report *report

	depth int
	marks [MaxDepth]int // of each open object where its names start; of an array -1 less the index of its item
	open  int           // how many names the open objects have together
	names [64]span      // those
	more  []span        // those for which there is no room there
}

// span is a part of the text, a string with its quotes. A slice would cost an allocation.
type span struct{ start, end int }

const bad = -1

// broken notes a broken rule, and reports whether to go on.
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

// space skips white space, of which a canonical text has none.
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
	if s.depth == MaxDepth { // nobody wants a hundred messages about it
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

// ErrTooDeep says that something is nested deeper than MaxDepth.
var ErrTooDeep = fmt.Errorf("nested deeper than %d", MaxDepth)

// stop ends the walk without another word.
func (s *scanner) stop() int {
	if s.report != nil {
		s.report.over = true
	}
	return bad
}

// items reads what is between the brackets, at least one item, and returns where the closing one is.
func (s *scanner) items(i int, closing byte) int {
	var seen map[string]bool // the names of the object, where they are many or written in several ways
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

// entry reads a member of the object that was opened last.
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

// found reads the value of the member that is looked for.
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
	if rule != "" && !s.broken(start, rule, "the number %s cannot be kept exactly", Clip(string(literal), 40)) {
		return bad
	}
	return i
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

// numberRule names the rule that a JSON number breaks, or "". A number is an integer when its
// canonical form is one, so 1e17 is refused like 100000000000000000.
func numberRule(literal []byte, whole bool) string {
	if whole && len(literal) <= 15 {
		return ""
	}
	f, err := strconv.ParseFloat(string(literal), 64)
	mantissa, _, _ := bytes.Cut(bytes.ToLower(literal), []byte("e"))
	if err != nil || f == 0 && bytes.ContainsAny(mantissa, "123456789") {
		return RuleNumber
	}
	// From 1e21 on the canonical form has an exponent; before, it is all digits.
	if abs := math.Abs(f); abs > MaxInteger && (abs < 1e21 || whole) {
		return RuleInteger
	}
	return ""
}
