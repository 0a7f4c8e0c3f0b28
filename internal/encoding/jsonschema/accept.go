package jsonschema

import (
	"bytes"
	"regexp"
	"strconv"
	"unicode/utf8"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// accepter is a fast path of validation: it decides for most values whether they are valid, in one pass over their
// bytes and without allocating. If it is not sure, the full validator decides; that also lists the violations. Only
// schemas with the most common keywords have an accepter. It requires I-JSON.
type accepter struct {
	types   int // set of the kinds below
	words   map[string]bool
	pattern *regexp.Regexp
	uuid    bool
	length  [2]float64 // smallest and largest number of characters of a string
	size    [2]float64 // smallest and largest number of items of an array
	most    float64    // largest number of members of an object
	value   [2]*float64
	items   *accepter
	names   *accepter // schema of the names of members
	members map[string]member
	folded  names     // of members; nil if others refuses all other members
	others  *accepter // schema of members that are not in members; nil refuses them
	needs   int       // number of required members

	condition, then *accepter // nil if the schema does not have them
}

// member is the schema of a named member.
type member struct {
	*accepter
	required bool
}

// The kinds of value, as bits.
const (
	kindNull = 1 << iota
	kindBool
	kindInteger
	kindNumber // a number that is not an integer
	kindString
	kindArray
	kindObject
	kindAll = 1<<iota - 1
)

var kindsOf = map[string]int{
	"null": kindNull, "boolean": kindBool, "integer": kindInteger, "number": kindInteger | kindNumber,
	"string": kindString, "array": kindArray, "object": kindObject,
}

// acceptAll accepts every value.
var acceptAll = &accepter{
	types: kindAll, length: [2]float64{0, ijson.MaxInteger}, size: [2]float64{0, ijson.MaxInteger}, most: ijson.MaxInteger,
}

// maxConditions is the largest number of conditions in a schema with an accepter. The accepter may check a value
// against all of them, and counts no steps.
const maxConditions = 16

// accepterOf returns the accepter of a document, or nil if the document has too many conditions or other keywords.
func accepterOf(doc any) *accepter {
	conditions := 0
	Walk(doc, func(_ string, members map[string]any) {
		if members["if"] != nil {
			conditions++
		}
	})
	if conditions > maxConditions {
		return nil
	}
	return newAccepter(doc)
}

// newAccepter returns the accepter of a decoded schema, or nil if the schema has other keywords than those below.
func newAccepter(schema any) *accepter {
	if schema == true {
		return acceptAll
	}
	m, ok := schema.(map[string]any)
	if !ok {
		return nil
	}
	a := *acceptAll
	a.others, a.items, a.names = acceptAll, acceptAll, acceptAll
	for keyword, v := range m {
		if !a.keyword(keyword, v) && !a.keywordOfParts(keyword, v) {
			return nil
		}
	}
	if a.words != nil {
		a.types &= kindString
	}
	required, ok := wordsOf(m["required"])
	if _, said := m["required"]; said && !ok {
		return nil
	}
	a.requires(required)
	if a.others != nil {
		a.folded = newNames(a.members)
	}
	return &a
}

// requires marks the required members.
func (a *accepter) requires(names map[string]bool) {
	for name := range names {
		m, named := a.members[name]
		if !named {
			m.accepter = a.others
		}
		m.required = true
		if a.members == nil {
			a.members = map[string]member{}
		}
		a.members[name] = m
	}
	a.needs = len(names)
}

// keyword reads a keyword that constrains the value itself. It returns false if it does not support the keyword.
func (a *accepter) keyword(name string, v any) (ok bool) {
	switch name {
	case "title", "description", "$comment", "default", "examples", "deprecated", "readOnly", "writeOnly", "required":
		return true
	case "$schema":
		return v == "https://json-schema.org/draft/2020-12/schema"
	case "type":
		a.types, ok = typesOf(v)
	case "enum":
		a.words, ok = wordsOf(v)
	case "const":
		a.words, ok = wordsOf([]any{v})
	case "format":
		a.uuid = true
		return v == "uuid"
	case "pattern":
		s, _ := v.(string)
		p, err := regexp.Compile(s)
		a.pattern, ok = p, err == nil
	case "minLength":
		a.length[0], ok = v.(float64)
	case "maxLength":
		a.length[1], ok = v.(float64)
	case "minItems":
		a.size[0], ok = v.(float64)
	case "maxItems":
		a.size[1], ok = v.(float64)
	case "maxProperties":
		a.most, ok = v.(float64)
	case "minimum":
		a.value[0], ok = numberOf(v)
	case "maximum":
		a.value[1], ok = numberOf(v)
	}
	return ok
}

// keywordOfParts reads a keyword that contains schemas. It returns false if it does not support the keyword.
func (a *accepter) keywordOfParts(name string, v any) (ok bool) {
	switch name {
	case "items":
		a.items = newAccepter(v)
		return a.items != nil
	case "propertyNames":
		a.names = newAccepter(v)
		return a.names != nil
	case "properties":
		a.members, ok = membersOf(v)
	case "additionalProperties":
		a.others = newAccepter(v)
		return v == false || a.others != nil
	case "if":
		a.condition = newAccepter(v)
		return a.condition != nil
	case "then":
		a.then = newAccepter(v)
		return a.then != nil
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

func membersOf(v any) (map[string]member, bool) {
	schemas, ok := v.(map[string]any)
	members := make(map[string]member, len(schemas))
	for name, schema := range schemas {
		a := newAccepter(schema)
		ok = ok && a != nil
		members[name] = member{accepter: a}
	}
	return members, ok
}

// accepts reports whether the I-JSON value v is certainly valid. False means that v may be valid or not.
func (a *accepter) accepts(v []byte) bool { return a.take(v, ijson.SkipSpace(v, 0)) >= 0 }

// Results of take for a value that is not certainly valid.
const (
	unsure  = -1
	refused = -2 // certainly invalid
)

// take returns the end of the value at v[i:] if it is certainly valid, else unsure or refused.
func (a *accepter) take(v []byte, i int) int {
	if i >= len(v) {
		return unsure
	}
	if a == acceptAll {
		return i + ijson.ValueLen(v[i:])
	}
	end := a.takeKind(v, i)
	if a.condition == nil || a.then == nil || end < 0 {
		return end
	}
	switch answer := a.condition.take(v, i); answer {
	case refused:
		return end
	case unsure:
		return unsure
	}
	return a.then.take(v, i)
}

func (a *accepter) takeKind(v []byte, i int) int {
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

// of returns end if values of this kind are allowed, else refused.
func (a *accepter) of(kind, end int) int {
	if a.types&kind == 0 {
		return refused
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
	case (counted || a.words != nil || a.uuid || a.pattern != nil) && bytes.IndexByte(s, '\\') >= 0:
		return unsure
	case a.words != nil && !a.words[string(s)], a.uuid && !IsUUID(s), a.pattern != nil && !a.pattern.Match(s):
		return refused
	case counted && !within(utf8.RuneCount(s), a.length):
		return refused
	}
	return a.of(kindString, i+n)
}

func within(n int, bounds [2]float64) bool { return bounds[0] <= float64(n) && float64(n) <= bounds[1] }

func (a *accepter) takeNumber(v []byte, i int) int {
	n := ijson.ScalarLen(v[i:])
	literal, kind := v[i:i+n], kindInteger
	if ijson.Fractional(literal) {
		kind = kindNumber
		if a.types&(kindInteger|kindNumber) == kindInteger {
			return unsure // 1.0 is an integer, too; the full validator decides
		}
	}
	if a.value[0] != nil || a.value[1] != nil {
		f, err := strconv.ParseFloat(string(literal), 64)
		if err != nil {
			return unsure
		}
		if a.value[0] != nil && f < *a.value[0] || a.value[1] != nil && f > *a.value[1] {
			return refused
		}
	}
	return a.of(kind, i+n)
}

func (a *accepter) takeArray(v []byte, i int) int {
	count := 0
	for i = ijson.SkipSpace(v, i+1); i < len(v) && v[i] != ']'; count++ {
		if v[i] == ',' {
			i = ijson.SkipSpace(v, i+1)
		}
		if i = a.items.take(v, i); i < 0 {
			return i
		}
		i = ijson.SkipSpace(v, i)
	}
	if !within(count, a.size) {
		return refused
	}
	return a.of(kindArray, i+1)
}

func (a *accepter) takeObject(v []byte, i int) int {
	missing, count := a.needs, 0.0
	for i = ijson.SkipSpace(v, i+1); i < len(v) && v[i] != '}'; count++ {
		if v[i] == ',' {
			i = ijson.SkipSpace(v, i+1)
		}
		var required bool
		if i, required = a.takeMember(v, i); i < 0 {
			return i
		}
		if required {
			missing--
		}
		i = ijson.SkipSpace(v, i)
	}
	if missing > 0 || count > a.most {
		return refused
	}
	return a.of(kindObject, i+1)
}

// takeMember is take for a member. It also reports whether the member is required.
func (a *accepter) takeMember(v []byte, i int) (end int, required bool) {
	n := ijson.StringLen(v[i:])
	if n < 2 || bytes.IndexByte(v[i:i+n], '\\') >= 0 {
		return unsure, false
	}
	if a.names != acceptAll {
		if end := a.names.take(v, i); end < 0 {
			return end, false
		}
	}
	m, named := a.members[string(v[i+1:i+n-1])]
	if !named {
		m.accepter = a.others
	}
	switch {
	case m.accepter == nil:
		return refused, false
	case !named && a.folded.has(v[i+1:i+n-1]):
		return unsure, false
	}
	i = ijson.SkipSpace(v, ijson.SkipSpace(v, i+n)+1) // after the colon
	return m.take(v, i), m.required
}

// IsUUID reports whether s has the form of a UUID, as format uuid requires.
func IsUUID[T string | []byte](s T) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
				return false
			}
		}
	}
	return true
}
