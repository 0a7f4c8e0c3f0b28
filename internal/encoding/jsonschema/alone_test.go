package jsonschema

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compilesAlone compiles a schema with a library that has no loader, and returns it.
func compilesAlone(t *testing.T, raw []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := Decode(raw)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	plain, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(plain, &v); err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("test:alone", v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	s, err := c.Compile("test:alone")
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return s
}

// verdicts maps values to whether a schema accepts them.
type verdicts map[string]bool

func (v verdicts) hold(t *testing.T, raw []byte) {
	t.Helper()
	s := compilesAlone(t, raw)
	for text, want := range v {
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(value); (err == nil) != want {
			t.Errorf("%s of %s: %v, want it taken: %t", raw, text, err, want)
		}
	}
}

// A schema of several documents keeps its meaning after Alone.
func TestAlone(t *testing.T) {
	files := map[string]string{
		"schema/common.json": `{"definitions":{"n":{"type":"integer"}},"$defs":{"tree":{"$anchor":"tree","type":"object",
			"properties":{"n":{"$ref":"#/definitions/n"},"more":{"type":"array","items":{"$ref":"#tree"}}},
			"additionalProperties":false}}}`,
		"schema/a/common.json": `{"type":"string"}`,
	}
	of := func(raw string) []byte {
		s, err := Compile("schema/response.json", []byte(raw), func(ref string) ([]byte, error) {
			return []byte(files[ref]), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		text, err := Alone(s.Whole())
		if err != nil {
			t.Fatalf("%s: %v", s.Whole(), err)
		}
		return text
	}
	verdicts{`{"t":{"n":1,"more":[{"n":2}]},"s":"x"}`: true, `{"t":{"more":[{"n":"x"}]}}`: false, `{"s":1}`: false}.hold(t,
		of(`{"type":"object","properties":{"t":{"$ref":"common.json#/$defs/tree"},"s":{"$ref":"a/common.json"}}}`))
	verdicts{`{"more":[{"n":"x"}]}`: false, `{"more":[{}]}`: true}.hold(t, of(`{"$ref":"common.json#tree"}`))
	verdicts{`[[[]]]`: true, `[[1]]`: false}.hold(t, of(`{"type":"array","items":{"$ref":"#"}}`))
}

// A schema of documents in several dialects has one dialect after Alone, and after Placed.
func TestAloneOfOneDialect(t *testing.T) {
	files := map[string]string{
		"schema/seven.json": `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"$ref":"#/definitions/n"}],
			"additionalItems":false,"definitions":{"n":{"type":"integer"}}}`,
		"schema/nineteen.json": `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,
			"type":"array","items":{"$recursiveRef":"#"}}`,
		"schema/four.json": `{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}`,
	}
	load := func(ref string) ([]byte, error) { return []byte(files[ref]), nil }
	of := func(raw string) []byte {
		s, err := Compile("schema/response.json", []byte(raw), load)
		if err != nil {
			t.Fatal(err)
		}
		text, err := Alone(s.Whole())
		if err != nil {
			t.Fatalf("%s: %v", s.Whole(), err)
		}
		return text
	}
	verdicts{
		`{"a":[1]}`: true, `{"a":["x"]}`: false, `{"a":[1,2]}`: false, `{"b":[[]]}`: true, `{"b":[1]}`: false,
	}.hold(t, of(`{"properties":{"a":{"$ref":"seven.json"},"b":{"$ref":"nineteen.json"}}}`))
	for file, v := range map[string]verdicts{
		"schema/seven.json":    {`{"output":[1]}`: true, `{"output":["x"]}`: false, `{"output":[1,2]}`: false},
		"schema/nineteen.json": {`{"output":[[]]}`: true, `{"output":[1]}`: false},
		"schema/four.json":     {`{"output":2}`: true, `{"output":1}`: false},
	} {
		placed, err := Placed(of(files[file]), "/properties/output")
		if err != nil {
			t.Fatal(err)
		}
		v.hold(t, []byte(`{"type":"object","properties":{"output":`+string(placed)+`}}`))
	}
}

// Sub returns a schema that stands alone, wherever its references lead.
func TestSub(t *testing.T) {
	whole := []byte(`{"type":"object","properties":{
		"own":{"$ref":"#/$defs/output"},
		"other":{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/properties/other/properties/a"}}}},
		"$defs":{"n":{"type":"integer"},
			"output":{"type":"object","definitions":{"x~y/z":{"type":"string"}},
				"properties":{"s":{"$ref":"#/$defs/output/definitions/x~0y~1z"},"o":{"$ref":"#/$defs/output"}}}}}`)
	sub := func(pointer string) []byte {
		text, err := Sub(whole, pointer)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	verdicts{`{"s":"x","o":{"s":"y"}}`: true, `{"o":{"s":1}}`: false, `[]`: false}.hold(t, sub("/properties/own"))
	verdicts{`{"a":1,"b":2}`: true, `{"b":"x"}`: false}.hold(t, sub("/properties/other"))
	if _, err := Sub(whole, "/properties/none"); err == nil {
		t.Error("there is a schema where there is none")
	}
	placed, err := Placed(sub("/properties/own"), "/properties/output")
	if err != nil {
		t.Fatal(err)
	}
	verdicts{`{"output":{"o":{"s":1}}}`: false, `{"output":{"o":{"s":"x"}}}`: true}.hold(t,
		[]byte(`{"type":"object","properties":{"output":`+string(placed)+`}}`))
}

// Alone refuses a schema that refers to another document.
func TestAloneRefuses(t *testing.T) {
	for _, raw := range []string{
		`{"$ref":"https://example.com/x.json"}`, `{"$ref":"other.json#/a"}`, `{"items":{"$ref":"#nowhere"}}`,
	} {
		if text, err := Alone([]byte(raw)); err == nil {
			t.Errorf("%s became %s", raw, text)
		}
	}
}

// A schema of an older draft keeps its meaning after Modernize.
func TestModernize(t *testing.T) {
	for raw, v := range map[string]verdicts{
		`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`: {
			`["a"]`: true, `[1]`: false, `["a",1]`: false,
		},
		`{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true,"maximum":3,
			"exclusiveMaximum":false}`: {`1`: false, `2`: true, `3`: true, `4`: false},
		`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"n":{"items":[{"type":"integer"}]}},
			"properties":{"n":{"$ref":"#/definitions/n/items/0"},"definitions":{"type":"null"},
				"d":{"$ref":"#/properties/definitions"}}}`: {
			`{"n":1,"d":null}`: true, `{"n":"x"}`: false, `{"d":1}`: false,
		},
		`{"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"a":["b"],"c":{"required":["d"]}}}`: {
			`{"a":1}`: false, `{"a":1,"b":1}`: true, `{"c":1}`: false, `{"c":1,"d":1}`: true,
		},
	} {
		v.hold(t, []byte(raw))
		modern, err := Decode([]byte(raw))
		if err != nil {
			t.Fatal(err)
		}
		Modernize(modern)
		text, err := Encode(modern)
		if err != nil {
			t.Fatal(err)
		}
		v.hold(t, text)
	}
}

// FuzzAlone: the result of Alone refers only to itself, and Alone accepts it again.
func FuzzAlone(f *testing.F) {
	for _, seed := range []string{
		`{"$ref":"#/$defs/a","$defs":{"a":{"$id":"b","items":[{"$ref":"#"}]}}}`,
		`{"$id":"a/b","items":{"$ref":"#x"},"$defs":{}}`,
		`{"$defs":{"a":{"$anchor":"x"}},"not":{"$dynamicRef":"#x"}}`,
		`{"$ref":"%zz"}`,
		`{"properties":{"$ref":{"$ref":"#/~1"}}}`,
		`{"$defs":{"toolbus:///a/b":{"$id":"toolbus:///a/b","$ref":"c"},` +
			`"toolbus:///a/c":{"$id":"toolbus:///a/c"}},"$ref":"a/b"}`,
	} {
		f.Add([]byte(seed), "/$defs/a")
	}
	f.Fuzz(func(t *testing.T, raw []byte, pointer string) {
		alone, err := Alone(raw)
		if err != nil {
			return
		}
		if v, err := Decode(alone); err == nil {
			Walk(v, func(at string, members map[string]any) {
				if ref, ok := members["$ref"].(string); ok && ref != "" && ref[0] != '#' && bytes.Contains(raw, []byte(`ef"`)) {
					t.Errorf("%s refers to %q at %q", alone, ref, at)
				}
			})
			Modernize(v)
		}
		if again, err := Alone(alone); err != nil || !bytes.Equal(again, alone) {
			t.Errorf("%s became %s, %v", alone, again, err)
		}
		if sub, err := Sub(alone, pointer); err == nil {
			if _, err := Alone(sub); err != nil {
				t.Errorf("%s at %q is %s: %v", alone, pointer, sub, err)
			}
		}
	})
}
