package jsonschema

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// A string becomes the value that it spells where the schema allows a value of that kind and no string. Everything else
// stays as it was sent.
func TestCoerce(t *testing.T) {
	t.Parallel()
	const same = ""
	for _, c := range []struct{ schema, value, want string }{
		{`{"type":"integer"}`, `"5"`, `5`},
		{`{"type":"integer"}`, `" -12\n"`, `-12`},
		{`{"type":"integer"}`, `"5.0"`, same},
		{`{"type":"integer"}`, `"1e3"`, same},
		{`{"type":"integer"}`, `"05"`, same},
		{`{"type":"integer"}`, `"5 apples"`, same},
		{`{"type":"integer"}`, `""`, same},
		{`{"type":"integer"}`, `"\"5\""`, same},
		{`{"type":"integer"}`, `"9007199254740991"`, `9007199254740991`},
		{`{"type":"integer"}`, `"9007199254740993"`, same},
		{`{"type":"integer"}`, `true`, same},
		{`{"type":"number"}`, `"2.50"`, `2.50`},
		{`{"type":"number"}`, `"0.1234567890123456789"`, `0.1234567890123456789`},
		{`{"type":"number"}`, `"1e400"`, same},
		{`{"type":"number"}`, `"NaN"`, same},
		{`{"type":"boolean"}`, `"true"`, `true`},
		{`{"type":"boolean"}`, `"False"`, `false`},
		{`{"type":"boolean"}`, `"yes"`, same},
		{`{"type":"boolean"}`, `"1"`, same},
		{`{"type":"boolean"}`, `1`, same},
		{`{"type":"string"}`, `5`, same},
		{`{"type":["string","integer"]}`, `"5"`, same},
		{`{"anyOf":[{"type":"string"},{"type":"integer"}]}`, `"5"`, same},
		{`{"type":["integer","null"]}`, `"5"`, `5`},
		{`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, `"5"`, `5`},
		{`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, `"null"`, `null`},
		{`{"oneOf":[{"type":"integer"},{"type":"boolean"}]}`, `"true"`, `true`},
		{`{"allOf":[{"type":["integer","string"]},{"type":"integer"}]}`, `"5"`, `5`},
		{`{"enum":[1,2]}`, `"2"`, `2`},
		{`{"enum":[1,"2"]}`, `"2"`, same},
		{`{"const":true}`, `"true"`, `true`},
		{`{"not":{"type":"string"}}`, `"5"`, same},
		{`{}`, `"5"`, same},
		{`{"type":"array","items":{"type":"integer"}}`, `"[1,\"2\",3]"`, `[1,2,3]`},
		{`{"type":"array"}`, `"1,2"`, same},
		{`{"type":"array"}`, `"{}"`, same},
		{`{"type":"array"}`, `"[1,"`, same},
		{`{"type":"array","items":{"type":"string"}}`, `["1","[2]"]`, same},
		{`{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`, `["1","2"]`, `["1",2]`},
		{`{"type":"object"}`, `"{\"a\":1,\"a\":2}"`, same},
		{`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"boolean"}}}}}`,
			`{"a": "{\"b\":\"true\",\"c\":\"1\"}", "d": "2"}`, `{"a":{"b":true,"c":"1"},"d":"2"}`},
		{`{"additionalProperties":{"type":"integer"},"properties":{"a":{"type":"string"}}}`, `{"a":"1","b":"2"}`,
			`{"a":"1","b":2}`},
		{`{"additionalProperties":{"type":"integer"},"patternProperties":{"^a":{"type":"string"}}}`, `{"a":"1"}`, same},
		{`{"$defs":{"n":{"type":"object","properties":{"n":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/n"},` +
			`{"type":"null"}]}}}},"$ref":"#/$defs/n"}`, `{"n":"1","next":{"n":"2","next":null}}`,
			`{"n":1,"next":{"n":2,"next":null}}`},
		{`{"anyOf":[{"properties":{"a":{"type":"integer"}}},{"properties":{"b":{"type":"integer"}}}]}`, `{"a":"1"}`, same},
		{`{"$ref":"#"}`, `"5"`, same},
	} {
		want := c.want
		if want == same {
			want = c.value
		}
		if got := compiled(t, c.schema).Coerce(jsontext.Value(c.value)); string(got) != want {
			t.Errorf("%s of %s: got %s, want %s", c.value, c.schema, got, want)
		}
	}
}

// A value that would be nested too deep, or would take too many steps, stays as it was sent.
func TestCoerceBounds(t *testing.T) {
	t.Parallel()
	const lists = `{"type":["object","array"],"additionalProperties":{"$ref":"#"}}`
	deep := `"` + strings.Repeat("[", ijson.MaxDepth-1) + strings.Repeat("]", ijson.MaxDepth-1) + `"`
	if v := jsontext.Value(`{"a":{"a":` + deep + `}}`); !ijson.Valid(v) {
		t.Fatal("the value is not valid itself")
	} else if got := compiled(t, lists).Coerce(v); string(got) != string(v) {
		t.Errorf("deep: got %s", got)
	}
	long := jsontext.Value(`["1"` + strings.Repeat(`,"2"`, MaxSteps) + `]`)
	if got := compiled(t, `{"items":{"type":"integer"}}`).Coerce(long); string(got) != string(long) {
		t.Error("a value of many items was changed")
	}
}

// Coerce changes no valid value. It changes its own result no further, and that is I-JSON without more bytes.
func FuzzCoerce(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"type":"object","properties":{"a":{"anyOf":[{"type":"integer"},{"type":"null"}]}}}`, `{"a":"5"}`},
		{`{"items":{"type":["array","boolean"],"items":{"enum":[1,null]}}}`, `["[\"1\",1]","TRUE",[null]]`},
		{`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"oneOf":[{"type":"object","additionalProperties":{"$ref":"#"}},` +
			`{"const":1.5}]}}}`, `{"a":"1.5","b":"{\"c\":\"1.50\"}"}`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#",` +
			`"properties":{"a":{"type":"integer","$ref":"#/definitions/b"}},"definitions":{"b":{"type":"string"}}}`,
			`{"a":"5"}`},
		{`{"$dynamicRef":"#n","$defs":{"x":{"$dynamicAnchor":"n","type":"integer"}}}`, `"1"`},
		{`{"if":{"properties":{"a":{"type":"integer"}}},"else":{"required":["b"]},"not":{"type":"array"}}`, `{"a":"1"}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, schema, value string) {
		v := jsontext.Value(value)
		s, err := Compile("fuzz", []byte(schema), nil)
		if err != nil || !ijson.Valid(v) {
			return
		}
		got := s.Coerce(v)
		switch {
		case string(got) != value && len(fully(s, v)) == 0:
			t.Errorf("%s changes %s, which is valid, to %s", schema, value, got)
		case !ijson.Valid(got) || len(got) > len(v):
			t.Errorf("%s makes %s of %s", schema, got, value)
		case string(s.Coerce(got)) != string(got):
			t.Errorf("%s makes %s of %s, and then %s", schema, got, value, s.Coerce(got))
		}
	})
}
