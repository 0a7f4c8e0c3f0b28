package jsonschema_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Keywords that JSON Schema does not define are found wherever there is a schema, and nowhere else.
func TestUnknown(t *testing.T) {
	type found = []jsonschema.UnknownKeyword
	const modern = "https://json-schema.org/draft/2020-12/schema"
	const draft7 = "http://json-schema.org/draft-07/schema#"
	for text, want := range map[string]found{
		`true`:                                nil,
		`{"propertys": {}, "type": "object"}`: {{"", "propertys"}},
		`{"properties": {"a/b": {"minlength": 1}}}`:            {{"/properties/a~1b", "minlength"}},
		`{"items": {"anyOf": [true, {"Type": 1}]}, "null": 1}`: {{"", "null"}, {"/items/anyOf/1", "Type"}},
		`{"a": 1, "b": 1, "c": 1, "d": 1}`:                     {{"", "a"}, {"", "b"}, {"", "c"}},
		`{"properties": {"propertys": true}, "x-order": 1}`:    nil,
		`{"$defs": {"minlength": {}}, "const": {"a": 1}}`:      nil,
		`{"enum": [{"b": 1}], "default": {"c": 1}}`:            nil,
		`{"examples": [{"d": 1}], "dependentRequired": {}}`:    nil,
		`{"$schema": "` + modern + `", "x": 1}`:                {{"", "x"}},
		`{"$schema": "` + draft7 + `", "$id": "a", "x": 1}`:    nil,
	} {
		s, err := jsonschema.Compile("s.json", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, found(s.Unknown(3))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
