package ijson

import (
	"encoding"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Table lists the members of the struct T in the order of its fields. It is made once for each T, is immutable, and
// is safe for concurrent use.
type Table[T any] struct{ members []member }

// TableOf returns the table of T. Names and omissions are those of the json tags; a field with the tag "-" is no
// member. T itself must not have methods that encode or decode it.
func TableOf[T any]() Table[T] { return Table[T]{membersOf(reflect.TypeFor[T]())} }

// Append appends v to b, without white space. It returns false if v holds a value that only the JSON library can
// encode or refuse: then the first result has no meaning. A payload that is not nil is appended as it stands, in the
// place of the first JSON value of v.
func (t Table[T]) Append(b []byte, v *T, payload jsontext.Value) ([]byte, bool) {
	w := writer{out: b, payload: payload}
	w.object(t.members, reflect.ValueOf(v).Elem())
	return w.out, !w.odd
}

// Read sets v, a zero value, to what text says if text is exactly what [Table.Append] appends, but for escapes in
// strings and the inside of JSON values. Otherwise it returns false, and v has no meaning. Text must be UTF-8 without
// control characters. If T has JSON values, text must be JSON without a duplicate name. A payload that is not nil
// becomes the first JSON value of v, for which text says null. The strings of v share the memory of text.
func (t Table[T]) Read(text string, v *T, payload jsontext.Value) bool {
	r := reader{rest: text, payload: payload}
	r.object(t.members, reflect.ValueOf(v).Elem())
	return !r.odd && r.rest == ""
}

// member is one field of a struct.
type member struct {
	field   int
	name    string // with its punctuation behind another member: `,"fn":`
	omitted bool   // if it is the zero value
	kind    kind
	members []member // of a struct
}

// kind is how a member is written.
type kind uint8

const (
	odd      kind = iota // by the library, unless it is omitted
	text                 // a string type
	texts                // []string
	flag                 // bool
	integer              // a signed integer type
	natural              // an unsigned integer type
	raw                  // jsontext.Value
	instant              // time.Time
	emptyMap             // a map; one with entries is odd
	object               // a struct
	pointer              // to a struct
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
		case "embed": // further members of the object, if there are any
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

// kindOf returns odd for a type that encodes itself, or whose encoding is not listed here.
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
