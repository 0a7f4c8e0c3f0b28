package ijson

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// IsQuick reports whether v is certainly I-JSON, in one pass. Of some values that are, it says no; the
// JSON library judges those. It exists because large payloads are checked at every door they pass,
// and mostly are long strings, over which it is far quicker.
func IsQuick(v []byte) bool {
	q := quick{v: v}
	end := q.value(SkipSpace(v, 0), 0)
	return end >= 0 && SkipSpace(v, end) == len(v)
}

// quick walks v. Its methods return where what starts at i ends, or unsure. depth is how many arrays
// and objects are open.
type quick struct {
	v     []byte
	names [maxOpen]span // of the open objects
	open  int           // how many there are
}

// unsure is what is answered when a value cannot be said to be fine.
const unsure = -1

var null = jsontext.Value("null")

// span is a part of v. Slices of v would cost an allocation.
type span struct{ start, end int }

// maxNames is how many members of one object are compared with each other, and maxOpen how many names the
// open objects may have together.
const (
	maxNames = 64
	maxOpen  = 128
)

func (q *quick) value(i, depth int) int {
	if i >= len(q.v) {
		return unsure
	}
	switch q.v[i] {
	case '{', '[':
		if depth == MaxDepth {
			return unsure
		}
		if q.v[i] == '{' {
			return q.object(i, depth+1)
		}
		return q.array(i, depth+1)
	case '"':
		return q.text(i)
	case 't':
		return q.literal(i, "true")
	case 'f':
		return q.literal(i, "false")
	case 'n':
		return q.literal(i, "null")
	}
	return q.number(i)
}

func (q *quick) literal(i int, want string) int {
	if end := i + len(want); end <= len(q.v) && string(q.v[i:end]) == want {
		return end
	}
	return unsure
}

func (q *quick) array(i, depth int) int {
	i = SkipSpace(q.v, i+1)
	if q.is(i, ']') {
		return i + 1
	}
	for {
		if i = q.value(i, depth); i < 0 {
			return unsure
		}
		switch i = SkipSpace(q.v, i); {
		case q.is(i, ']'):
			return i + 1
		case !q.is(i, ','):
			return unsure
		}
		i = SkipSpace(q.v, i+1)
	}
}

func (q *quick) object(i, depth int) int {
	first := q.open
	i = SkipSpace(q.v, i+1)
	if q.is(i, '}') {
		return i + 1
	}
	for {
		if i = q.name(i, first); i < 0 {
			return unsure
		}
		if i = q.value(i, depth); i < 0 {
			return unsure
		}
		switch i = SkipSpace(q.v, i); {
		case q.is(i, '}'):
			q.open = first
			return i + 1
		case !q.is(i, ','):
			return unsure
		}
		i = SkipSpace(q.v, i+1)
	}
}

// name reads a name that the object, whose names start at first, does not have yet, and returns
// where its value starts.
func (q *quick) name(i, first int) int {
	if !q.is(i, '"') {
		return unsure
	}
	end := q.text(i)
	if end < 0 || q.open-first >= maxNames || q.open == maxOpen {
		return unsure
	}
	name := q.v[i:end]
	if len(name) > MaxName {
		return unsure
	}
	if bytes.IndexByte(name, '\\') >= 0 { // it could be another's in disguise
		return unsure
	}
	for _, other := range q.names[first:q.open] {
		if bytes.Equal(q.v[other.start:other.end], name) {
			return unsure
		}
	}
	q.names[q.open] = span{i, end}
	q.open++
	if i = SkipSpace(q.v, end); !q.is(i, ':') {
		return unsure
	}
	return SkipSpace(q.v, i+1)
}

func (q *quick) is(i int, c byte) bool { return i < len(q.v) && q.v[i] == c }

// text reads a string; escapes of code points are not its business.
func (q *quick) text(i int) int {
	quote := i // the next one; looked for again only once it is passed, for strings may be all escapes
	for i++; ; {
		if quote < i {
			n := bytes.IndexByte(q.v[i:], '"')
			if n < 0 {
				return unsure
			}
			quote = i + n
		}
		escape := bytes.IndexByte(q.v[i:quote], '\\')
		if escape < 0 {
			if !isPlain(q.v[i:quote]) {
				return unsure
			}
			return quote + 1
		}
		if !isPlain(q.v[i:i+escape]) || bytes.IndexByte([]byte(`"\/bfnrt`), q.v[i+escape+1]) < 0 {
			return unsure
		}
		i += escape + 2
	}
}

// isPlain reports whether s may stand in a JSON string as it is.
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

// number reads a number as the grammar of JSON has it, if it can be kept exactly.
func (q *quick) number(start int) int {
	end := q.literalNumber(start)
	if end >= 0 && numberRule(q.v[start:end]) != "" {
		return unsure
	}
	return end
}

func (q *quick) literalNumber(i int) int {
	if q.is(i, '-') {
		i++
	}
	switch {
	case q.is(i, '0'):
		i++
	default:
		if i = q.digits(i); i < 0 {
			return unsure
		}
	}
	if q.is(i, '.') {
		if i = q.digits(i + 1); i < 0 {
			return unsure
		}
	}
	if q.is(i, 'e') || q.is(i, 'E') {
		if i++; q.is(i, '+') || q.is(i, '-') {
			i++
		}
		i = q.digits(i)
	}
	return i
}

// digits reads at least one digit.
func (q *quick) digits(i int) int {
	start := i
	for i < len(q.v) && '0' <= q.v[i] && q.v[i] <= '9' {
		i++
	}
	if i == start {
		return unsure
	}
	return i
}

// Cut splits a document in two: its payload, the member of this name, and the rest with null in its
// place. The payload is I-JSON, so that the whole is, if the rest is. ok is false when it cannot be
// said so quickly.
func Cut(doc []byte, name string) (rest []byte, payload jsontext.Value, ok bool) {
	i := find(doc, name)
	if i < 0 {
		return nil, nil, false
	}
	q := quick{v: doc}
	end := q.value(i, 1)
	if end < 0 {
		return nil, nil, false
	}
	return bytes.Join([][]byte{doc[:i], null, doc[end:]}, nil), doc[i:end:end], true
}

// Hollow returns a document with nothing in its payload, which keeps its type; doc itself where it has
// none of this name. doc must be valid JSON.
func Hollow(doc []byte, name string) []byte {
	i := find(doc, name)
	if i < 0 {
		return doc
	}
	empty := map[byte]string{'{': "{}", '[': "[]", '"': `""`}[doc[i]]
	if empty == "" {
		return doc
	}
	return bytes.Join([][]byte{doc[:i], []byte(empty), doc[i+ValueLen(doc[i:]):]}, nil)
}

// Values returns about how many values valid JSON holds, and no fewer.
func Values(doc []byte) (n int) {
	for i := 0; i < len(doc); i++ {
		switch doc[i] {
		case '"':
			i += StringLen(doc[i:]) - 1
		case ',', '[', '{':
			n++
		}
	}
	return n + 1
}

// find returns where the value of the first member of this name starts; unsure when there is none.
func find(doc []byte, name string) int {
	i := SkipSpace(doc, 0)
	if i >= len(doc) || doc[i] != '{' {
		return unsure
	}
	for i = SkipSpace(doc, i+1); i < len(doc) && doc[i] == '"'; {
		n := StringLen(doc[i:])
		found := string(doc[i:i+n]) == `"`+name+`"`
		if i = SkipSpace(doc, i+n); i >= len(doc) || doc[i] != ':' {
			break
		}
		i = SkipSpace(doc, i+1)
		if found && i < len(doc) {
			return i
		}
		if i = SkipSpace(doc, i+ValueLen(doc[i:])); i < len(doc) && doc[i] == ',' {
			i = SkipSpace(doc, i+1)
		}
	}
	return unsure
}

// SkipSpace returns where the first byte from i on is that is no white space.
func SkipSpace(v []byte, i int) int {
	for i < len(v) && (v[i] == ' ' || v[i] == '\n' || v[i] == '\t' || v[i] == '\r') {
		i++
	}
	return i
}

// ValueLen returns the length of the JSON value that v starts with.
func ValueLen(v []byte) int {
	depth := 0
	for i := 0; i < len(v); {
		switch c := v[i]; c {
		case '"':
			i += StringLen(v[i:])
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		case ',', ':', ' ', '\n', '\t', '\r':
			i++
			continue
		default:
			i += scalarLen(v[i:])
		}
		if depth == 0 {
			return i
		}
	}
	return len(v)
}

// scalarLen returns the length of the number or literal that v starts with.
func scalarLen(v []byte) int {
	for i, c := range v {
		switch c {
		case ',', ']', '}', ' ', '\n', '\t', '\r':
			return i
		}
	}
	return len(v)
}
