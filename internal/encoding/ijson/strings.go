package ijson

import (
	"bytes"
	"encoding/binary"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// quoted is a string in the text.
type quoted struct {
	end   int
	plain bool // its value is the bytes between its quotes
	flaw  int  // offset of the first byte that is not UTF-8, or bad
	half  bool // it contains half of a surrogate pair
}

// quoted reads the string at i.
func (s *scanner) quoted(i int) quoted {
	q := quoted{end: bad, plain: true, flaw: bad}
	quote := i // next quote; searched again only after i has passed it: a string may be all escapes
	for i++; ; {
		if quote < i {
			n := bytes.IndexByte(s.text[i:], '"')
			if n < 0 {
				return q
			}
			quote = i + n
		}
		n := bytes.IndexByte(s.text[i:quote], '\\')
		stop := quote
		if n >= 0 {
			stop = i + n
		}
		if piece := s.text[i:stop]; !isPlain(piece) && !q.mark(piece, i) {
			return q
		}
		if n < 0 {
			q.end = quote + 1
			return q
		}
		q.plain = false
		if i = s.escape(stop, &q); i == bad {
			return q
		}
	}
}

// mark records the first byte in a piece of a string that is not UTF-8. It returns false for a control character.
func (q *quoted) mark(piece []byte, at int) bool {
	for i := 0; i < len(piece); {
		r, n := utf8.DecodeRune(piece[i:])
		if r < ' ' {
			return false
		}
		if r == utf8.RuneError && n == 1 && q.flaw == bad {
			q.flaw, q.plain = at+i, false
		}
		i += n
	}
	return true
}

// isPlain reports whether s, which contains no quote and no backslash, is valid inside a JSON string without escapes.
func isPlain(s []byte) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	low, high, rest := uint64(0), uint64(0), s
	for ; len(rest) >= 16; rest = rest[16:] {
		a, b := binary.LittleEndian.Uint64(rest), binary.LittleEndian.Uint64(rest[8:])
		low |= (a-ones*' ')&^a | (b-ones*' ')&^b // the high bit of a byte, if one is below a space
		high |= a | b
	}
	for _, b := range rest {
		if b < ' ' {
			return false
		}
		high |= uint64(b)
	}
	return low&highs == 0 && (high&highs == 0 || utf8.Valid(s))
}

// escape reads the escape sequence at i.
func (s *scanner) escape(i int, q *quoted) int {
	switch s.text[i+1] { // at least a quote follows
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case '/':
		s.said.Canonical = false
		return i + 2
	}
	s.said.Canonical = false // rarely canonical, so assume it is not
	high := s.unit(i)
	switch {
	case high == bad:
		return bad
	case high < 0xd800 || 0xdfff < high:
		return i + 6
	case high < 0xdc00:
		if low := s.unit(i + 6); 0xdc00 <= low && low <= 0xdfff {
			return i + 12
		}
	}
	q.half = true
	return i + 6
}

// unit returns the UTF-16 code unit of the escape \u at i, or bad.
func (s *scanner) unit(i int) int {
	if i+6 > len(s.text) || s.text[i] != '\\' || s.text[i+1] != 'u' {
		return bad
	}
	n := 0
	for _, c := range s.text[i+2 : i+6] {
		switch {
		case '0' <= c && c <= '9':
			n = n<<4 | int(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			n = n<<4 | int(c|0x20-'a'+10)
		default:
			return bad
		}
	}
	return n
}

// isUTF8 reports a string that is not valid UTF-8, and returns whether to continue.
func (s *scanner) isUTF8(start int, q quoted) bool {
	switch {
	case q.flaw != bad:
		return s.broken(q.flaw, RuleUTF8, "the byte 0x%02x in a string is not valid UTF-8", s.text[q.flaw])
	case q.half:
		return s.broken(start, RuleUTF8, "a string is not valid UTF-8: it holds half of a surrogate pair")
	}
	return true
}

// fewNames is the number of names in an object up to which each new name is compared with all others. Above it, a map
// is used.
const fewNames = 32

// name checks the name of a member, and returns whether to continue.
func (s *scanner) name(at span, plain bool, seen *map[string]bool) bool {
	name := s.text[at.start+1 : at.end-1]
	if !plain { // an escaped name may equal another name
		name, _ = jsontext.AppendUnquote(nil, s.text[at.start:at.end])
	}
	first := s.marks[s.depth-1]
	if s.said.Canonical {
		s.said.Canonical = plain && isSimple(name) && (s.open == first || bytes.Compare(s.inner(s.open-1), name) < 0)
	}
	twice := s.twice(at, name, plain, seen)
	if len(name) > MaxName && !s.broken(at.start, RuleName, "the name of a member is longer than %d bytes", MaxName) {
		return false
	}
	return !twice || s.broken(at.start, RuleDuplicate, "the member occurs twice (a duplicate name)")
}

// isSimple reports whether name sorts by its bytes as in canonical form, which sorts by UTF-16 code units.
func isSimple(name []byte) bool {
	for _, c := range name {
		if c >= 0xee {
			return false
		}
	}
	return true
}

// twice stores a name, and reports whether its object already has it.
func (s *scanner) twice(at span, name []byte, plain bool, seen *map[string]bool) (twice bool) {
	first := s.marks[s.depth-1]
	if *seen == nil && plain && s.open-first < fewNames {
		for i := first; i < s.open && !twice; i++ {
			twice = bytes.Equal(s.inner(i), name)
		}
		s.keep(s.open, at)
		return twice
	}
	if *seen == nil {
		*seen = map[string]bool{}
		for i := first; i < s.open; i++ {
			(*seen)[string(s.inner(i))] = true
		}
	}
	twice = (*seen)[string(name)]
	(*seen)[string(name)] = true
	s.keep(max(first, s.open-1), at) // from now on only the last name is needed
	return twice
}

// keep stores the i-th of the open names.
func (s *scanner) keep(i int, at span) {
	s.open = i + 1
	switch i -= len(s.names); {
	case i < 0:
		s.names[i+len(s.names)] = at
	case i < len(s.more):
		s.more[i] = at
	default:
		s.more = append(s.more, at)
	}
}

// kept returns the i-th of the open names with its quotes.
func (s *scanner) kept(i int) []byte {
	if i < len(s.names) {
		return s.text[s.names[i].start:s.names[i].end]
	}
	at := s.more[i-len(s.names)]
	return s.text[at.start:at.end]
}

// inner returns the i-th of the open names without its quotes.
func (s *scanner) inner(i int) []byte {
	name := s.kept(i)
	return name[1 : len(name)-1]
}

// pointer returns the JSON pointer to the value or name that was read last.
func (s *scanner) pointer() string {
	var p jsontext.Pointer
	for d, mark := range s.marks[:s.depth] {
		if mark < 0 {
			if item := bad - 1 - mark; item >= 0 {
				p = p.AppendToken(strconv.Itoa(item))
			}
			continue
		}
		end := s.open
		for _, deeper := range s.marks[d+1 : s.depth] {
			if deeper >= 0 {
				end = deeper
				break
			}
		}
		if end > mark {
			name, _ := jsontext.AppendUnquote(nil, s.kept(end-1))
			p = p.AppendToken(string(name))
		}
	}
	return string(p)
}
