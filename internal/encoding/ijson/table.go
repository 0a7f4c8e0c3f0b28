package ijson

import (
	"encoding"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Table encodes and decodes the struct T by a list of its members in the order of its fields. Make one Table for each T
// with [TableOf]. It is immutable and safe for concurrent use.
type Table[T any] struct{ members []member }

// TableOf returns the table of T. It reads the names and omission options from the json tags, and skips fields with the
// tag "-". T itself must not have methods that encode or decode it.
func TableOf[T any]() Table[T] { return Table[T]{membersOf(reflect.TypeFor[T]())} }

// Append appends the JSON of v to b, without white space. It returns false if only the JSON library can encode or
// refuse a value in v; then the first result is undefined. If payload is not nil, Append writes it unchanged in place
// of the first JSON value of v.
func (t Table[T]) Append(b []byte, v *T, payload jsontext.Value) ([]byte, bool) {
	w := writer{out: b, payload: payload}
	w.object(t.members, reflect.ValueOf(v).Elem())
	return w.out, !w.odd
}

// Read decodes text into v, which must be zero. It returns true only for output of [Table.Append]; escapes in strings
// and the inside of JSON values may differ. If it returns false, v is undefined. text must be UTF-8 without control
// characters. If T has JSON values, text must be JSON without duplicate names. If payload is not nil, it becomes the
// first JSON value of v, for which text must have null. The strings of v share the memory of text.
func (t Table[T]) Read(text string, v *T, payload jsontext.Value) bool {
	r := reader{rest: text, payload: payload}
	r.object(t.members, reflect.ValueOf(v).Elem())
	return !r.odd && r.rest == ""
}

// member is one field of a struct.
type member struct {
	field   int
	name    string // with the punctuation after another member: `,"fn":`
	omitted bool   // left out if it is zero
	kind    kind
	members []member // members of a struct
}

// kind is the encoding of a member.
type kind uint8

const (
	odd      kind = iota // only the library can encode it, unless it is omitted
	text                 // a string type
	texts                // []string
	flag                 // bool
	integer              // a signed integer type
	natural              // an unsigned integer type
	raw                  // jsontext.Value
	instant              // time.Time
	emptyMap             // a map; with entries only the library can encode it
	object               // a struct
	pointer              // a pointer to a struct
)

func membersOf(t reflect.Type) (members []member) {
	for f := range t.Fields() {
		if f.Tag.Get("json") == "-" {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		m := member{field: f.Index[0], name: `,"` + name + `":`}
		switch options {
		case "", "omitzero":
			m.kind, m.omitted = kindOf(f.Type), options != ""
		case "embed": // further members of the object
			m.omitted = true
		}
		switch m.kind {
		case object:
			m.members = membersOf(f.Type)
		case pointer:
			m.members = membersOf(f.Type.Elem())
		}
		members = append(members, m)
	}
	return members
}

// kindOf returns the encoding of a type: odd if the type has encoding methods or an encoding that is not listed here.
func kindOf(t reflect.Type) kind {
	switch t {
	case reflect.TypeFor[[]string]():
		return texts
	case reflect.TypeFor[jsontext.Value]():
		return raw
	case reflect.TypeFor[time.Time]():
		return instant
	case reflect.TypeFor[time.Duration]():
		return odd
	}
	switch reflect.New(t).Interface().(type) {
	case json.Marshaler, json.MarshalerTo, json.Unmarshaler, json.UnmarshalerFrom, encoding.TextAppender,
		encoding.TextMarshaler, encoding.TextUnmarshaler:
		return odd
	}
	switch t.Kind() {
	case reflect.String:
		return text
	case reflect.Bool:
		return flag
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return integer
	case reflect.Uint64:
		return natural
	case reflect.Map:
		return emptyMap
	case reflect.Struct:
		return object
	case reflect.Pointer:
		if kindOf(t.Elem()) == object {
			return pointer
		}
	}
	return odd
}
