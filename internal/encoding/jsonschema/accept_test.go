package jsonschema

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

func compiled(t testing.TB, schema string) *Schema {
	t.Helper()
	s, err := Compile("test", []byte(schema), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fully validates v without the accepter.
func fully(s *Schema, v jsontext.Value) []Violation {
	found, _ := s.judge(nil, v)
	return found
}

// Values that the accepter accepts, and valid values that it leaves to the full validator.
func TestAccepter(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		schema, value string
		taken         bool
	}{
		{`true`, `{"a":[1,{"b":null}]}`, true},
		{`{}`, `-1.5e3`, true},
		{`{"type":"string"}`, `"a\"b"`, true},
		{`{"type":"string"}`, `1`, false},
		{`{"type":["string","null"]}`, ` null `, true},
		{`{"type":"integer"}`, `12`, true},
		{`{"type":"integer"}`, `1.0`, false},
		{`{"type":"number","minimum":0,"maximum":1.5}`, `1.5`, true},
		{`{"type":"number","minimum":0,"maximum":1.5}`, `1.6`, false},
		{`{"minimum":0}`, `"text"`, true},
		{`{"minLength":2,"maxLength":3}`, `"äöü"`, true},
		{`{"minLength":2,"maxLength":3}`, `"äöüß"`, false},
		{`{"maxLength":3}`, `"\u0041"`, false},
		{`{"enum":["a","b"]}`, `"b"`, true},
		{`{"enum":["a","b"]}`, `"c"`, false},
		{`{"type":["string","integer"],"enum":["a"]}`, `1`, false},
		{`{"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":2}`, `[ true , false ]`, true},
		{`{"type":"array","items":{"type":"boolean"},"minItems":1}`, `[]`, false},
		{`{"type":"array","items":{"type":"boolean"},"maxItems":2}`, `[true,true,true]`, false},
		{`{"type":"array"}`, `[1,"]",[[]]]`, true},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}},"additionalProperties":false}`, `{"a":1}`,
			true},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}},"additionalProperties":false}`, `{}`,
			false},
		{`{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}`, `{"b":1}`, false},
		{`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"a":1,"b":{"c":[]}}`, true},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, `{"x":"y","z":"}"}`, true},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, `{"x":1}`, false},
		{`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"\u0061":1}`, false},
		{`{"pattern":"^a+$"}`, `"aa"`, true},
		{`{"pattern":"^a+$"}`, `"ab"`, false},
		{`{"pattern":"^a+$"}`, `"\u0061"`, false},
		{`{"const":"a"}`, `"a"`, true},
		{`{"const":"a"}`, `"b"`, false},
		{`{"format":"uuid"}`, `"0b8f5b0e-5c1d-4f0e-9f5e-0D5A3C1B2A4D"`, true},
		{`{"format":"uuid"}`, `"0b8f5b0e-5c1d-4f0e-9f5e-0d5a3c1b2a4g"`, false},
		{`{"format":"uuid"}`, `"0b8f5b0e-5c1d-4f0e-9f5e-0d5a3c1b2a4"`, false},
		{`{"format":"uuid"}`, `"0b8f5b0e05c1d-4f0e-9f5e-0d5a3c1b2a4d"`, false},
		{`{"maxProperties":1}`, `{"a":1}`, true},
		{`{"maxProperties":1}`, `{"a":1,"b":2}`, false},
		{`{"propertyNames":{"maxLength":1}}`, `{"a":1,"b":2}`, true},
		{`{"propertyNames":{"maxLength":1}}`, `{"aa":1}`, false},
		{`{"required":["a"]}`, `{"b":1,"a":2}`, true},
		{`{"required":["a"],"additionalProperties":false}`, `{"a":2}`, false},
		{`{"if":{"const":"a"},"then":{"maxLength":0}}`, `"b"`, true},
		{`{"if":{"const":"a"},"then":{"maxLength":0}}`, `"a"`, false},
		{`{"if":{"const":"a"},"then":{"maxLength":1}}`, `"a"`, true},
		{`{"if":{"const":"a"},"then":{"maxLength":0}}`, `"\u0062"`, false},
		{`{"if":{"const":"a"}}`, `"a"`, true},
		{`{"then":{"const":"a"}}`, `"b"`, true},
	} {
		s := compiled(t, row.schema)
		if s.accepter == nil {
			t.Errorf("%s has no accepter", row.schema)
			continue
		}
		if got := s.accepter.accepts([]byte(row.value)); got != row.taken {
			t.Errorf("%s takes %s: %t, want %t", row.schema, row.value, got, row.taken)
		}
		if row.taken && len(fully(s, jsontext.Value(row.value))) > 0 {
			t.Errorf("%s takes %s, which is not valid", row.schema, row.value)
		}
	}
}

func TestNoAccepterForOtherKeywords(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`false`, `{"format":"uri"}`, `{"enum":[1]}`, `{"const":1}`, `{"if":{"format":"uri"}}`, `{"else":{}}`,
		`{"allOf":[true]}`, `{"not":{}}`,
		`{"uniqueItems":true}`, `{"items":{"format":"uri"}}`, `{"properties":{"a":{"multipleOf":2}}}`,
		`{"$ref":"#/$defs/a","$defs":{"a":{}}}`,
		`{"prefixItems":[{}]}`, `{"patternProperties":{"a":{}}}`, `{"exclusiveMinimum":1}`, `{"minProperties":1}`,
		`{"dependentRequired":{}}`,
		`{"additionalProperties":{"format":"uri"}}`, `{"$schema":"http://json-schema.org/draft-07/schema#"}`,
	} {
		if compiled(t, schema).accepter != nil {
			t.Errorf("%s has an accepter", schema)
		}
	}
}

// For every schema with an accepter, each value that it accepts is valid, and each value that it refuses is not.
func FuzzAccepter(f *testing.F) {
	f.Add(`{"type":"object","required":["a"],"properties":{"a":{"type":"integer","minimum":3}},`+
		`"additionalProperties":false}`, `{"a":3}`)
	f.Add(`{"type":"array","items":{"type":["string","null"],"maxLength":2},"minItems":1}`, `["ab",null]`)
	f.Add(`{"enum":["a"],"additionalProperties":{"type":"number","maximum":1e3}}`, `{"b":1e3}`)
	f.Add(`{"if":{"properties":{"a":{"const":"b"}}},"then":{"required":["c"]},"propertyNames":{"pattern":"^[a-z]$"},`+
		`"maxProperties":2}`, `{"a":"b","c":1.0}`)
	f.Add(`{"format":"uuid"}`, `"0b8f5b0e-5c1d-4f0e-9f5e-0d5a3c1b2a4d"`)
	f.Fuzz(func(t *testing.T, schema, value string) {
		s, err := Compile("fuzz", []byte(schema), nil)
		if err != nil || s.accepter == nil {
			return
		}
		// It must not panic, whatever the value is.
		answer := s.accepter.take([]byte(value), ijson.SkipSpace([]byte(value), 0))
		if answer == unsure || !ijson.Valid(jsontext.Value(value)) {
			return
		}
		if bad := fully(s, jsontext.Value(value)); (answer == refused) != (len(bad) > 0) {
			t.Errorf("%s answers %d of %s, but: %v", schema, answer, value, bad)
		}
	})
}

func BenchmarkAccept(b *testing.B) {
	s := compiled(b, `{"type":"object","required":["a","items"],"properties":{"a":{"type":"array",
		"items":{"type":"integer"}},
		"items":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"text":{"type":"string"}}}},
		"query":{"type":"string"}},
		"additionalProperties":false}`)
	for _, size := range []int{256, 64 << 10} {
		in := inputOf(size)
		for name, validate := range map[string]func(jsontext.Value) []Violation{"checked": s.ValidateChecked,
			"any": s.Validate, "full": func(v jsontext.Value) []Violation { return fully(s, v) }} {
			b.Run(fmt.Sprintf("%dB/%s", size, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if bad := validate(in); bad != nil {
						b.Fatal(bad)
					}
				}
			})
		}
	}
}
