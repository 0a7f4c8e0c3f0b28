package schema

import (
	"fmt"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/ijson"
)

func compiled(t testing.TB, schema string) *Schema {
	t.Helper()
	s, err := Compile("test", []byte(schema), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What the accepter takes, and what it leaves to the full validator although it is valid.
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
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}},"additionalProperties":false}`, `{"a":1}`, true},
		{`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}},"additionalProperties":false}`, `{}`, false},
		{`{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false}`, `{"b":1}`, false},
		{`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"a":1,"b":{"c":[]}}`, true},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, `{"x":"y","z":"}"}`, true},
		{`{"type":"object","additionalProperties":{"type":"string"}}`, `{"x":1}`, false},
		{`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"\u0061":1}`, false},
	} {
		s := compiled(t, row.schema)
		if s.accepter == nil {
			t.Errorf("%s has no accepter", row.schema)
			continue
		}
		if got := s.accepter.accepts([]byte(row.value)); got != row.taken {
			t.Errorf("%s takes %s: %t, want %t", row.schema, row.value, got, row.taken)
		}
		if row.taken && len(s.judge(jsontext.Value(row.value))) > 0 {
			t.Errorf("%s takes %s, which is not valid", row.schema, row.value)
		}
	}
}

func TestNoAccepterForOtherKeywords(t *testing.T) {
	t.Parallel()
	for _, schema := range []string{
		`false`, `{"pattern":"a"}`, `{"format":"uri"}`, `{"enum":[1]}`, `{"const":"a"}`, `{"allOf":[true]}`, `{"not":{}}`,
		`{"uniqueItems":true}`, `{"items":{"pattern":"a"}}`, `{"properties":{"a":{"multipleOf":2}}}`, `{"$ref":"#/$defs/a","$defs":{"a":{}}}`,
		`{"prefixItems":[{}]}`, `{"patternProperties":{"a":{}}}`, `{"exclusiveMinimum":1}`, `{"minProperties":1}`, `{"dependentRequired":{}}`,
		`{"additionalProperties":{"format":"uri"}}`, `{"$schema":"http://json-schema.org/draft-07/schema#"}`,
	} {
		if compiled(t, schema).accepter != nil {
			t.Errorf("%s has an accepter", schema)
		}
	}
}

// Whatever the accepter takes is valid, for every schema that has one.
func FuzzAccepter(f *testing.F) {
	f.Add(`{"type":"object","required":["a"],"properties":{"a":{"type":"integer","minimum":3}},"additionalProperties":false}`, `{"a":3}`)
	f.Add(`{"type":"array","items":{"type":["string","null"],"maxLength":2},"minItems":1}`, `["ab",null]`)
	f.Add(`{"enum":["a"],"additionalProperties":{"type":"number","maximum":1e3}}`, `{"b":1e3}`)
	f.Fuzz(func(t *testing.T, schema, value string) {
		s, err := Compile("fuzz", []byte(schema), nil)
		if err != nil || s.accepter == nil {
			return
		}
		taken := s.accepter.accepts([]byte(value)) // must not panic, whatever it is
		if taken && ijson.Valid(jsontext.Value(value)) && len(s.judge(jsontext.Value(value))) > 0 {
			t.Errorf("%s takes %s, which is not valid", schema, value)
		}
	})
}

func BenchmarkAccept(b *testing.B) {
	s := compiled(b, `{"type":"object","required":["a","items"],"properties":{"a":{"type":"array","items":{"type":"integer"}},
		"items":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"text":{"type":"string"}}}},"query":{"type":"string"}},
		"additionalProperties":false}`)
	for _, size := range []int{256, 64 << 10} {
		in := inputOf(size)
		for name, validate := range map[string]func(jsontext.Value) []Violation{"checked": s.ValidateChecked, "any": s.Validate, "full": s.judge} {
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
