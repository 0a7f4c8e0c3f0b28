package ijson

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxRepairs is the number of repairs that one call of [Mend] lists.
const MaxRepairs = 1000

// Repair is one value or name that [Mend] replaced because I-JSON cannot represent it.
type Repair struct {
	Pointer string // JSON pointer in the result
	Rule    string // rule of [Check] that the input breaks there
	Was     []byte // replaced JSON text; shares the memory of the input
	Name    bool   // Was is the name of a member, not a value
}

// Exact reports whether Was is the valid JSON text of a value, so that it can be restored for a reader that accepts it.
func (r Repair) Exact() bool {
	return !r.Name && r.Rule != RuleDuplicate && r.Rule != RuleSyntax && utf8.Valid(r.Was)
}

// Repairs lists what [Mend] replaced.
type Repairs struct {
	List []Repair // at most MaxRepairs
	More int      // repairs that are not in List
}

// Mend returns v as I-JSON that is nested at most depth deep, and lists the values that it replaced. If v needs no
// change, it returns v itself. ok is false if v is not JSON.
//
// Numbers that I-JSON cannot represent become strings of the same digits. Lone surrogates become U+FFFD. Arrays and
// objects below depth become strings of their JSON text. Names longer than MaxName are cut. If several members have one
// name, only the last one stays. Mend also accepts deviations from JSON: the tokens NaN, Infinity and -Infinity become
// null, invalid bytes in strings become U+FFFD, and control characters in strings are escaped.
func Mend(v jsontext.Value, depth int) (mended jsontext.Value, found Repairs, ok bool) {
	depth = min(depth, MaxDepth)
	s := scanner{text: v}
	if s.whole() && s.said.Depth <= depth {
		return v, found, true
	}
	m := mender{text: v, most: depth, out: make([]byte, 0, len(v)+len(v)/8)}
	end := m.value(SkipSpace(v, 0))
	if end == bad || SkipSpace(v, end) != len(v) {
		return nil, Repairs{}, false
	}
	return m.out, m.found, true
}

// mender copies a text to out. Its methods return the end of the value at i, or bad if it is not JSON.
type mender struct {
	text  []byte
	out   []byte
	most  int      // largest depth
	path  []string // tokens of the pointer to the current value
	found Repairs
}

func (m *mender) repair(rule string, was []byte) {
	if len(m.found.List) == MaxRepairs {
		m.found.More++
		return
	}
	var p jsontext.Pointer
	for _, token := range m.path {
		p = p.AppendToken(token)
	}
	m.found.List = append(m.found.List, Repair{Pointer: string(p), Rule: rule, Was: was})
}

func (m *mender) value(i int) int {
	if i >= len(m.text) {
		return bad
	}
	switch c := m.text[i]; {
	case c == '"':
		return m.quote(i)
	case (c == '{' || c == '[') && len(m.path) == m.most:
		return m.flat(i)
	case c == '{':
		return m.object(i)
	case c == '[':
		return m.array(i)
	}
	for _, word := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(m.text[i:], []byte(word)) {
			m.out = append(m.out, word...)
			return i + len(word)
		}
	}
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(m.text[i:], []byte(word)) {
			m.repair(RuleSyntax, m.text[i:i+len(word)])
			m.out = append(m.out, "null"...)
			return i + len(word)
		}
	}
	return m.number(i)
}

// flat replaces an array or object that is nested too deep by a string of its JSON text.
func (m *mender) flat(i int) int {
	end := i + ValueLen(m.text[i:])
	was := jsontext.Value(m.text[i:end])
	if !was.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		return bad
	}
	m.repair(RuleDepth, was)
	m.out, _ = jsontext.AppendQuote(m.out, bytes.ToValidUTF8(was, []byte("\ufffd"))) // valid UTF-8 has no error
	return end
}

func (m *mender) number(i int) int {
	s := scanner{text: m.text, report: &report{at: place{text: m.text[:0], line: 1, column: 1}}}
	end := s.number(i)
	if end == bad {
		return bad
	}
	literal := m.text[i:end]
	rule := ""
	if found := s.report.found; len(found) > 0 {
		rule = found[0].Rule
	}
	if rule == "" {
		m.out = append(m.out, literal...)
		return end
	}
	m.repair(rule, literal)
	m.out = append(append(append(m.out, '"'), literal...), '"')
	return end
}

func (m *mender) array(i int) int {
	m.out = append(m.out, '[')
	m.path = append(m.path, "")
	i = SkipSpace(m.text, i+1)
	for n := 0; ; n++ {
		if n == 0 && i < len(m.text) && m.text[i] == ']' {
			break
		}
		m.path[len(m.path)-1] = strconv.Itoa(n)
		if i = m.value(i); i == bad {
			return bad
		}
		if i = SkipSpace(m.text, i); i >= len(m.text) {
			return bad
		}
		if m.text[i] == ']' {
			break
		}
		if m.text[i] != ',' {
			return bad
		}
		m.out = append(m.out, ',')
		i = SkipSpace(m.text, i+1)
	}
	m.path = m.path[:len(m.path)-1]
	m.out = append(m.out, ']')
	return i + 1
}

// field is a member of an object in out, with its repairs.
type field struct {
	name       string
	start, end int // in out
	from, to   int // range in the list of repairs
	was        []byte
}

func (m *mender) object(i int) int {
	opened, first := len(m.out), len(m.found.List)
	m.out = append(m.out, '{')
	m.path = append(m.path, "")
	var fields []field
	last := map[string]int{} // index in fields of the last member, by name
	i = SkipSpace(m.text, i+1)
	for n := 0; ; n++ {
		if n == 0 && i < len(m.text) && m.text[i] == '}' {
			break
		}
		f := field{start: len(m.out), from: len(m.found.List)}
		if i = m.field(i, &f); i == bad {
			return bad
		}
		f.end, f.to = len(m.out), len(m.found.List)
		last[f.name] = len(fields)
		fields = append(fields, f)
		if i = SkipSpace(m.text, i); i >= len(m.text) {
			return bad
		}
		if m.text[i] == '}' {
			break
		}
		if m.text[i] != ',' {
			return bad
		}
		m.out = append(m.out, ',')
		i = SkipSpace(m.text, i+1)
	}
	if len(last) < len(fields) {
		m.distinct(opened, first, fields, last)
	}
	m.path = m.path[:len(m.path)-1]
	m.out = append(m.out, '}')
	return i + 1
}

// distinct rewrites the object at opened in out, with only the last member of each name.
func (m *mender) distinct(opened, first int, fields []field, last map[string]int) {
	written := slices.Clone(m.out[opened:])
	repairs := slices.Clone(m.found.List[first:])
	m.out = append(m.out[:opened], '{')
	m.found.List = m.found.List[:first]
	for n, f := range fields {
		m.path[len(m.path)-1] = f.name
		if last[f.name] != n {
			m.repair(RuleDuplicate, f.was)
			continue
		}
		if len(m.out) > opened+1 {
			m.out = append(m.out, ',')
		}
		m.out = append(m.out, written[f.start-opened:f.end-opened]...)
		m.found.List = append(m.found.List, repairs[f.from-first:f.to-first]...)
	}
}

// field copies a member of an object.
func (m *mender) field(i int, f *field) int {
	start, before := len(m.out), len(m.found.List)
	if i >= len(m.text) || m.text[i] != '"' {
		return bad
	}
	end := m.quote(i)
	if end == bad {
		return bad
	}
	name, err := jsontext.AppendUnquote(nil, m.out[start:])
	if err != nil {
		return bad
	}
	if len(name) > MaxName {
		name = shortened(name)
		m.out, _ = jsontext.AppendQuote(m.out[:start], name) // valid UTF-8 has no error
		m.repair(RuleName, m.text[i:end])
	}
	f.name = string(name)
	m.path[len(m.path)-1] = f.name
	if len(m.found.List) > before { // report the name itself, at the pointer of its member
		rule := m.found.List[len(m.found.List)-1].Rule
		m.found.List = m.found.List[:before]
		m.repair(rule, m.text[i:end])
		m.found.List[before].Name = true
	}
	if i = SkipSpace(m.text, end); i >= len(m.text) || m.text[i] != ':' {
		return bad
	}
	i = SkipSpace(m.text, i+1)
	m.out = append(m.out, ':')
	end = m.value(i)
	if end != bad {
		f.was = m.text[i:end]
	}
	return end
}

// shortened returns a name of at most MaxName bytes. It ends with a hash, so that different names stay different.
func shortened(name []byte) []byte {
	sum := sha256.Sum256(name)
	mark := "…" + hex.EncodeToString(sum[:8])
	cut := MaxName - len(mark)
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return append(slices.Clone(name[:cut]), mark...)
}
