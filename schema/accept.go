package schema

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/seed-018f16cc/toolbus/internal/ijson"
)

// accepter is a schema in a form that says of most valid values that they are valid, in one pass
// over their bytes and without allocating. It says nothing of the others: the full validator
// judges those, and lists what is wrong with them. Only schemas of the most common keywords have
// an accepter. Every value it takes must be I-JSON already.
type accepter struct {
	types    int // set of the kinds below; 0 takes all
	words    map[string]bool
	length   [2]float64 // least and most characters of a string
	size     [2]float64 // of an array
	value    [2]*float64
	items    *accepter // nil takes all
	members  map[string]*accepter
	required map[string]bool
	others   *accepter // members that are not named; nil refuses them
}

// The kinds of value, as bits.
const (
	kindNull = 1 << iota
	kindBool
	kindInteger
	kindNumber // that is no integer
	kindString
	kindArray
	kindObject
	kindAll = 1<<iota - 1
)

var kindsOf = map[string]int{
	"null": kindNull, "boolean": kindBool, "integer": kindInteger, "number": kindInteger | kindNumber,
	"string": kindString, "array": kindArray, "object": kindObject,
}

// acceptAll takes every value.
var acceptAll = &accepter{types: kindAll, length: [2]float64{0, ijson.MaxInteger}, size: [2]float64{0, ijson.MaxInteger}}

// newAccepter returns the accepter of a decoded schema, nil when it has keywords beyond those.
func newAccepter(schema any) *accepter {
	if schema == true {
		return acceptAll
	}
	m, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	a := *acceptAll
	a.others = acceptAll
	for keyword, v := range m {
		if !a.keyword(keyword, v) {
			return nil
		}
	}
	if a.words != nil {
		a.types &= kindString
	}
	return &a
}

// keyword takes one keyword of the schema; false means that this accepter cannot be.
func (a *accepter) keyword(name string, v any) (ok bool) {
	switch name {
	case "title", "description", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly":
		return true
	case "$schema":
		return v == "https://json-schema.org/draft/2020-12/schema"
	case "type":
		a.types, ok = typesOf(v)
	case "enum":
		a.words, ok = wordsOf(v)
	case "minLength":
		a.length[0], ok = v.(float64)
	case "maxLength":
		a.length[1], ok = v.(float64)
	case "minItems":
		a.size[0], ok = v.(float64)
	case "maxItems":
		a.size[1], ok = v.(float64)
	case "minimum":
		a.value[0], ok = numberOf(v)
	case "maximum":
		a.value[1], ok = numberOf(v)
	case "items":
		a.items = newAccepter(v)
		ok = a.items != nil
	case "properties":
		a.members, ok = membersOf(v)
	case "required":
		a.required, ok = wordsOf(v)
	case "additionalProperties":
		if v == false {
			a.others = nil
			return true
		}
		a.others = newAccepter(v)
		ok = a.others != nil
	}
	return ok
}

func typesOf(v any) (types int, ok bool) {
	if name, ok := v.(string); ok {
		return kindsOf[name], kindsOf[name] != 0
	}
	names, _ := wordsOf(v)
	for name := range names {
		types |= kindsOf[name]
	}
	return types, types != 0
}

// wordsOf returns a list of strings as a set; ok is false for any other value.
func wordsOf(v any) (set map[string]bool, ok bool) {
	list, ok := v.([]any)
	set = make(map[string]bool, len(list))
	for _, item := range list {
		s, isString := item.(string)
		ok = ok && isString
		set[s] = true
	}
	return set, ok
}

func numberOf(v any) (*float64, bool) {
	f, ok := v.(float64)
	return &f, ok
}

func membersOf(v any) (map[string]*accepter, bool) {
	schemas, ok := v.(map[string]any)
	members := make(map[string]*accepter, len(schemas))
	for name, schema := range schemas {
		a := newAccepter(schema)
		ok = ok && a != nil
		members[name] = a
	}
	return members, ok
}

// accepts reports whether the I-JSON value v is certainly valid.
func (a *accepter) accepts(v []byte) bool { return a.take(v, ijson.SkipSpace(v, 0)) >= 0 }

// unsure is what take answers when it cannot say that a value is valid.
const unsure = -1

// take reads the value at v[i:] and returns where it ends, or unsure.
func (a *accepter) take(v []byte, i int) int {
	if i >= len(v) {
		return unsure
	}
	if a == acceptAll {
		return i + ijson.ValueLen(v[i:])
	}
	switch c := v[i]; c {
	case '{':
		return a.takeObject(v, i)
	case '[':
		return a.takeArray(v, i)
	case '"':
		return a.takeString(v, i)
	case 'n':
		return a.of(kindNull, i+len("null"))
	case 't':
		return a.of(kindBool, i+len("true"))
	case 'f':
		return a.of(kindBool, i+len("false"))
	}
	return a.takeNumber(v, i)
}

// of returns end if values of this kind are allowed.
func (a *accepter) of(kind, end int) int {
	if a.types&kind == 0 {
		return unsure
	}
	return end
}

func (a *accepter) takeString(v []byte, i int) int {
	n := ijson.StringLen(v[i:])
	if n < 2 {
		return unsure
	}
	s := v[i+1 : i+n-1]
	counted := a.length != acceptAll.length
	switch {
	case (counted || a.words != nil) && bytes.IndexByte(s, '\\') >= 0:
		return unsure
	case a.words != nil && !a.words[string(s)]:
		return unsure
	case counted && !within(utf8.RuneCount(s), a.length):
		return unsure
	}
	return a.of(kindString, i+n)
}

func within(n int, bounds [2]float64) bool { return bounds[0] <= float64(n) && float64(n) <= bounds[1] }

func (a *accepter) takeNumber(v []byte, i int) int {
	n := ijson.NumberLen(v[i:])
	literal, kind := v[i:i+n], kindInteger
	if ijson.Fractional(literal) {
		kind = kindNumber // 1.0 is an integer too, but that is for others to find out
	}
	if a.value[0] != nil || a.value[1] != nil {
		f, err := strconv.ParseFloat(string(literal), 64)
		if err != nil || a.value[0] != nil && f < *a.value[0] || a.value[1] != nil && f > *a.value[1] {
			return unsure
		}
	}
	return a.of(kind, i+n)
}

func (a *accepter) takeArray(v []byte, i int) int {
	items := a.items
	if items == nil {
		items = acceptAll
	}
	count := 0
	for i = ijson.SkipSpace(v, i+1); i < len(v) && v[i] != ']'; count++ {
		if v[i] == ',' {
			i = ijson.SkipSpace(v, i+1)
		}
		if i = items.take(v, i); i < 0 {
			return unsure
		}
		i = ijson.SkipSpace(v, i)
	}
	if !within(count, a.size) {
		return unsure
	}
	return a.of(kindArray, i+1)
}

func (a *accepter) takeObject(v []byte, i int) int {
	missing := len(a.required)
	for i = ijson.SkipSpace(v, i+1); i < len(v) && v[i] != '}'; {
		if v[i] == ',' {
			i = ijson.SkipSpace(v, i+1)
		}
		n := ijson.StringLen(v[i:])
		if n < 2 || bytes.IndexByte(v[i:i+n], '\\') >= 0 {
			return unsure
		}
		name := v[i+1 : i+n-1]
		if a.required[string(name)] {
			missing--
		}
		member := a.member(name)
		if member == nil {
			return unsure
		}
		i = ijson.SkipSpace(v, ijson.SkipSpace(v, i+n)+1) // behind the colon
		if i = member.take(v, i); i < 0 {
			return unsure
		}
		i = ijson.SkipSpace(v, i)
	}
	if missing > 0 {
		return unsure
	}
	return a.of(kindObject, i+1)
}

// member returns what takes the member of this name; nil when there may be none.
func (a *accepter) member(name []byte) *accepter {
	if m, named := a.members[string(name)]; named {
		return m
	}
	return a.others
}
