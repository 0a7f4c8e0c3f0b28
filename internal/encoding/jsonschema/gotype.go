package jsonschema

import (
	"encoding"
	"math"
	"reflect"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// FromType returns the JSON Schema of the JSON that a Go type encodes to.
func FromType(t reflect.Type) (jsontext.Value, error) {
	special := map[reflect.Type]*jsonschema.Schema{}
	encodings(t, special, map[reflect.Type]bool{})
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: special})
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

// encodings collects schemas for the types in t for which the generator would return a wrong one: types with encoding
// methods, and types whose values have narrower limits than the generator assumes.
func encodings(t reflect.Type, special map[reflect.Type]*jsonschema.Schema, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	if s := ownEncoding(t); s != nil {
		special[t] = s
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		encodings(t.Elem(), special, seen)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			encodings(f.Type, special, seen)
		}
	}
}

// ownEncoding returns the schema of such a type, or nil for any other.
func ownEncoding(t reflect.Type) *jsonschema.Schema {
	switch {
	case t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface:
		return nil
	case t == reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case implements[json.Marshaler](t), implements[json.MarshalerTo](t): // the result of the method is unknown: any JSON
		return &jsonschema.Schema{Types: []string{"null", "boolean", "number", "string", "array", "object"}}
	case implements[encoding.TextMarshaler](t):
		return &jsonschema.Schema{Type: "string"}
	case t.Kind() == reflect.Int || t.Kind() == reflect.Int64:
		return &jsonschema.Schema{Type: "integer", Minimum: jsonschema.Ptr(-maxExact), Maximum: jsonschema.Ptr(maxExact)}
	case t.Kind() == reflect.Uint || t.Kind() == reflect.Uint64 || t.Kind() == reflect.Uintptr:
		return &jsonschema.Schema{Type: "integer", Minimum: jsonschema.Ptr(0.0), Maximum: jsonschema.Ptr(maxExact)}
	case t.Kind() == reflect.Float32:
		return &jsonschema.Schema{
			Type: "number", Minimum: jsonschema.Ptr(-math.MaxFloat32), Maximum: jsonschema.Ptr(math.MaxFloat32),
		}
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t.Elem().Kind() == reflect.Uint8:
		return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
	}
	return nil
}

// maxExact is the largest integer that JSON carries exactly. Without it the generator would allow 1e300.
const maxExact = 1<<53 - 1.0

func implements[Method any](t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[Method]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[Method]())
}
