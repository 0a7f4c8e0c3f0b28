package jsonschema

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// rules returns the pointer and rule of each violation.
func rules(found []Violation) (s []string) {
	for _, v := range found {
		s = append(s, v.Pointer+" "+v.Rule)
	}
	return s
}

// inputOf returns an input of about size bytes.
func inputOf(size int) jsontext.Value {
	const item = `{"id":17,"text":"some words that go into the index 17"}`
	return jsontext.Value(`{"a":[1,2,3],"items":[` + strings.Repeat(item+",",
		size/len(item)-2) + item + `],"query":"what is the answer"}`)
}

func compile(t *testing.T, raw string) *Schema {
	t.Helper()
	s, err := Compile("schema/request.json", []byte(raw), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestValidateSaysEveryRule(t *testing.T) {
	for _, c := range []struct{ schema, in, want string }{
		{`{"type":["object","null"]}`, `1`, ` type must be null or object, not number`},
		{`{"type":"integer"}`, `1.5`, ` type must be integer, not number`},
		{`{"enum":[1,"b",null]}`, `2`, ` enum must be one of 1, "b", null`},
		{`{"const":{"a":1}}`, `2`, ` const must be {"a":1}`},
		{`{"format":"uri"}`, `"a b"`, ` format must be a valid uri`},
		{`{"pattern":"^a+$"}`, `"secret"`, ` pattern must match ^a+$`},
		{`{"not":{"type":"string"}}`, `"secret"`, ` not must not match the schema under not`},
		{`{"properties":{"a":false}}`, `{"a":1}`, `/a false is not allowed here`},
		{`{"minLength":3}`, `"é"`, ` minLength must have at least 3 characters, has 1`},
		{`{"maxLength":0}`, `"é"`, ` maxLength must have at most 0 characters, has 1`},
		{`{"minItems":1}`, `[]`, ` minItems must have at least 1 items, has 0`},
		{`{"maxItems":1}`, `[1,2]`, ` maxItems must have at most 1 items, has 2`},
		{`{"minProperties":1}`, `{}`, ` minProperties must have at least 1 members, has 0`},
		{`{"maxProperties":0}`, `{"a":1}`, ` maxProperties must have at most 0 members, has 1`},
		{`{"minimum":1.5}`, `1`, ` minimum must be at least 3/2`},
		{`{"maximum":1}`, `2`, ` maximum must be at most 1`},
		{`{"exclusiveMinimum":1}`, `1`, ` exclusiveMinimum must be more than 1`},
		{`{"exclusiveMaximum":1}`, `1`, ` exclusiveMaximum must be less than 1`},
		{`{"multipleOf":0.1}`, `0.25`, ` multipleOf must be a multiple of 1/10`},
		{`{"uniqueItems":true}`, `[1,2,1.0]`, ` uniqueItems items 0 and 2 are equal`},
		{`{"contains":{"const":1}}`, `[2]`, ` contains has too few items of the kind demanded|/0 const must be 1`},
		{`{"contains":{"const":1},"maxContains":1}`, `[1,1]`, ` maxContains has too many items of one kind`},
		{`{"dependentRequired":{"a":["b","c"]}}`, `{"a":1}`, ` dependentRequired must have b, c because it has a`},
		{`{"propertyNames":{"maxLength":1}}`, `{"a/b":1}`, `/a~1b propertyNames the name is not allowed`},
		{`{"properties":{"a":{"propertyNames":{"maxLength":1}},"b":{"properties":{"c":{}}}}}`, `{"a":{"xx":1},"b":{"c":1}}`,
			`/a/xx propertyNames the name is not allowed`},
		{`{"required":["a","~/"]}`, `{}`, `/a required is missing|/~0~1 required is missing`},
		{`{"additionalProperties":false}`, `{"x":1,"y":2}`,
			`/x additionalProperties is not allowed here|/y additionalProperties is not allowed here`},
		{`{"properties":{"query":{},"limit":{}},"additionalProperties":false}`, `{"limits":1,"qury":1,"zzzzzz":1}`,
			`/limits additionalProperties is not allowed here; did you mean "limit"?|` +
				`/qury additionalProperties is not allowed here; did you mean "query"?|` +
				`/zzzzzz additionalProperties is not allowed here`},
		{`{"properties":{"query":{}},"additionalProperties":false,"required":["query"]}`, `{"query":1,"qury":1}`,
			`/qury additionalProperties is not allowed here`},
		{`{"properties":{"query":{}},"additionalProperties":false,"required":["query"]}`, `{"qury":1}`,
			`/query required is missing|/qury additionalProperties is not allowed here; did you mean "query"?`},
		{`{"properties":{"query":{},"quer":{}},"required":["query"]}`, `{"quer":1,"qerys":"secret"}`,
			`/query required is missing; did you mean it by "qerys"?`},
		{`{"anyOf":[{"type":"string"},{"minimum":5}]}`, `1`,
			` anyOf matches none of the alternatives| minimum must be at least 5| type must be string, not number`},
		{`{"oneOf":[{"type":"string"}]}`, `1`, ` oneOf matches none of the alternatives| type must be string, not number`},
		{`{"oneOf":[true,true]}`, `1`, ` oneOf matches more than one of the alternatives`},
		{`{"allOf":[{"minimum":5},{"minimum":6}]}`, `1`, ` minimum must be at least 5| minimum must be at least 6`},
		{`{"if":true,"then":{"const":1}}`, `2`, ` const must be 1`},
		{`{"unevaluatedProperties":false}`, `{"x":1}`, `/x false is not allowed here`},
		{`{"prefixItems":[{"items":{"type":"null"}}]}`, `[[1]]`, `/0/0 type must be null, not number`},
		{`{"$ref":"#/$defs/n","$defs":{"n":{"type":"null"}}}`, `1`, ` type must be null, not number`},
	} {
		var got []string
		for _, v := range compile(t, c.schema).Validate(jsontext.Value(c.in)) {
			got = append(got, v.Pointer+" "+v.Rule+" "+v.Message)
		}
		if diff := cmp.Diff(strings.Split(c.want, "|"), got); diff != "" {
			t.Errorf("%s with %s:\n%s", c.schema, c.in, diff)
		}
		if strings.Contains(strings.Join(got, ""), "secret") {
			t.Errorf("%s repeats the value", c.schema)
		}
	}
}

func TestValidateNumbers(t *testing.T) {
	s := compile(t, `{"type":"integer","minimum":0,"multipleOf":1}`)
	for in, ok := range map[string]bool{
		`1`: true, `1.0`: true, `1e3`: true, `9007199254740991`: true, `-1`: false, `0.5`: false,
		`1e300`: true, `1e400`: false, `1e2000000`: false, `9007199254740993`: false, `99999999999999999999`: false,
	} {
		if got := s.Validate(jsontext.Value(in)); (got == nil) != ok {
			t.Errorf("%s: %v", in, got)
		}
	}
}

func TestValidateUnreadable(t *testing.T) {
	s := compile(t, `true`)
	for in, want := range map[string]string{
		`{`: "syntax", ``: "syntax", `1 2`: "syntax", `{"a":1,"a":1}`: "duplicate", `"\ud800"`: "utf8", `1e999`: "number",
		strings.Repeat("[", ijson.MaxDepth+1) + strings.Repeat("]", ijson.MaxDepth+1): "depth",
	} {
		if got := s.Validate(jsontext.Value(in)); len(got) == 0 || got[0].Rule != want {
			t.Errorf("%.40s: %v, want %s", in, got, want)
		}
	}
}

func TestValidateIsBounded(t *testing.T) {
	s := compile(t, `{"items":{"type":"string","pattern":"`+strings.Repeat("long", 200)+`"}}`)
	items := strings.Repeat(`1,"x",`, 300)
	got := s.Validate(jsontext.Value("[" + items + "1]"))
	if len(got) != ijson.MaxViolations+1 {
		t.Errorf("%d violations", len(got))
	}
	for _, v := range got {
		if len(v.Message) > ijson.MaxViolationText {
			t.Errorf("message of %d bytes", len(v.Message))
		}
	}
}

// A recursive schema with several alternatives would try nested values in exponentially many ways.
func TestValidateCountsSteps(t *testing.T) {
	branch := func(name string) string {
		return `{"properties":{"a":{"$ref":"#"}},"type":"object","title":"` + name + `"}`
	}
	nested := func(depth int) jsontext.Value {
		return jsontext.Value(strings.Repeat(`{"a":`, depth) + `1` + strings.Repeat(`}`, depth))
	}
	s := compile(t, `{"anyOf":[`+branch("x")+`,`+branch("y")+`,`+branch("z")+`]}`)
	for _, c := range []struct {
		depth int
		rule  string
	}{{2, "anyOf"}, {40, "steps"}, {2, "anyOf"}} {
		if got := s.Validate(nested(c.depth)); len(got) == 0 || got[0].Rule != c.rule {
			t.Errorf("%d deep: %v", c.depth, got)
		}
	}
	long := "[" + strings.Repeat(`{"a":null},`, MaxSteps/4) + "1]"
	list := compile(t, `{"items":{"$ref":"#/$defs/item"},"$defs":{"item":{"anyOf":[{"type":"number"},`+
		`{"properties":{"a":{"type":"null"}}}]}}}`)
	if got := list.Validate(jsontext.Value(long)); got != nil {
		t.Errorf("a long list: %v", got)
	}
}

func TestValidateIsConcurrent(t *testing.T) {
	s := compile(t, `{"type":"object","required":["a"],"properties":{"a":{"format":"uuid"}}}`)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				if got := s.Validate(jsontext.Value(`{"a":"x"}`)); len(got) != 1 {
					t.Errorf("%d: %v", i, got)
				}
				if got := s.Validate(jsontext.Value(`{"a":"0b8f5b0e-5c1d-4f0e-9f5e-0d5a3c1b2a4d"}`)); got != nil {
					t.Errorf("%d: %v", i, got)
				}
			}
		})
	}
	wg.Wait()
}

func TestCompileSchemaLoads(t *testing.T) {
	var asked []string
	load := func(ref string) ([]byte, error) {
		asked = append(asked, ref)
		switch ref {
		case "schema/common types.json":
			return []byte(`{"$defs":{"id":{"type":"string"}}}`), nil
		case "top.json":
			return []byte(`{"type":"number"}`), nil
		}
		return nil, errors.New("no such file")
	}
	raw := `{"properties":{"a":{"$ref":"common%20types.json#/$defs/id"},"b":{"$ref":"../../../top.json"}}}`
	s, err := Compile("schema/request.json", []byte(raw), load)
	if err != nil {
		t.Fatal(err)
	}
	if got := rules(s.Validate(jsontext.Value(`{"a":1,"b":"x"}`))); !cmp.Equal(got, []string{"/a type", "/b type"}) {
		t.Errorf("violations %v, asked for %v", got, asked)
	}
	if string(s.Raw()) != raw {
		t.Errorf("Raw is %s", s.Raw())
	}
	whole, err := Compile("elsewhere", s.Whole(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := rules(whole.Validate(jsontext.Value(`{"a":1,"b":"x"}`))); !cmp.Equal(got, []string{"/a type", "/b type"}) {
		t.Errorf("violations %v of %s", got, whole.Raw())
	}
}

// Compile refuses documents that cannot be combined into one, because callers could not use them.
func TestCompileSchemaRefusesParts(t *testing.T) {
	for _, c := range []struct{ raw, other, want string }{
		{`{"$ref":"x.json"}`, `{"$id":"https://example.com/x"}`, "leave it out"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"$ref":"x.json"}}}`, `{}`,
			"no other documents"},
	} {
		_, err := Compile("request.json", []byte(c.raw), func(string) ([]byte, error) { return []byte(c.other), nil })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: %v", c.raw, c.other, err)
		}
	}
}

// A schema may be true or false, also one to which another schema refers.
func TestWholeSchemaOfBooleans(t *testing.T) {
	s, err := Compile("request.json", []byte(`{"properties":{"a":{"$ref":"true.json"},"b":{"$ref":"false.json"}}}`),
		func(ref string) ([]byte, error) { return []byte(strings.TrimSuffix(ref, ".json")), nil })
	if err != nil {
		t.Fatal(err)
	}
	if got := rules(s.Validate(jsontext.Value(`{"a":1,"b":1}`))); !cmp.Equal(got, []string{"/b not"}) {
		t.Errorf("violations %v of %s", got, s.Whole())
	}
}

// A schema keeps its own definitions in addition to those of other documents.
func TestWholeSchemaKeepsDefinitions(t *testing.T) {
	raw := `{"$defs":{"n":{"type":"null"}},"properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"x.json"},` +
		`"c":{"$ref":"x.json#/$defs/s"}}}`
	s, err := Compile("request.json", []byte(raw), func(string) ([]byte, error) {
		return []byte(`{"$ref":"#/$defs/s","$defs":{"s":{"type":"string"}}}`), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := rules(s.Validate(jsontext.Value(`{"a":1,"b":1,"c":1}`))); !cmp.Equal(got,
		[]string{"/a type", "/b type", "/c type"}) {
		t.Errorf("violations %v of %s", got, s.Whole())
	}
}

// TestOlderDrafts reads schemas in the draft that they name. In draft-07, items may be a list, and 2020-12 does not
// have the keyword definitions. A schema may refer to one of another draft.
func TestOlderDrafts(t *testing.T) {
	old := `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object",
		"properties":{"pair":{"items":[{"type":"string"},{"$ref":"#/definitions/n"}],"additionalItems":false}},
		"definitions":{"n":{"type":"number","exclusiveMinimum":0}}}`
	alone, err := Compile("old.json", []byte(old), nil)
	if err != nil {
		t.Fatal(err)
	}
	around, err := Compile("new.json", []byte(`{"properties":{"old":{"$ref":"old.json"}}}`),
		func(string) ([]byte, error) { return []byte(old), nil })
	if err != nil {
		t.Fatal(err)
	}
	for value, valid := range map[string]bool{
		`{"pair":["a",1]}`: true, `{"pair":["a",0]}`: false, `{"pair":[1,1]}`: false, `{"pair":["a",1,2]}`: false,
	} {
		if bad := alone.Validate(jsontext.Value(value)); (bad == nil) != valid {
			t.Errorf("%s: %v", value, bad)
		}
		if bad := around.Validate(jsontext.Value(`{"old":` + value + `}`)); (bad == nil) != valid {
			t.Errorf("within another: %s: %v", value, bad)
		}
	}
}

func TestCompileSchemaRefuses(t *testing.T) {
	answer := func(body string) func(string) ([]byte, error) {
		return func(string) ([]byte, error) { return []byte(body), nil }
	}
	for _, c := range []struct {
		name, raw string
		load      func(string) ([]byte, error)
		want      string
	}{
		{"no JSON", `{`, nil, "not JSON"},
		{"duplicate", `{"type":"null","type":"null"}`, nil, "twice"},
		{"wrong type", `{"type":"text"}`, nil, "schema/x.json"},
		{"reasons of a wrong type", `{"properties":{"n":{"type":"text"}}}`, nil, "schema schema/x.json: at " +
			"'/properties/n/type': value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', " +
			"'string'; or got string, want array"},
		{"no JSON at its beginning", `{x}`, nil, "schema schema/x.json: line 1, column 2"},
		{"bad pattern", `{"pattern":"("}`, nil, "schema/x.json"},
		{"network", `{"$ref":"https://example.com/schema.json"}`, answer(`{}`), "not fetched"},
		{"file", `{"$ref":"file:///etc/passwd"}`, answer(`{}`), "not fetched"},
		{"no loader", `{"$ref":"other.json"}`, nil, "no other documents"},
		{"loader fails", `{"$ref":"other.json"}`, func(string) ([]byte, error) { return nil, errors.New("gone") }, "gone"},
		{"loaded is no JSON", `{"$ref":"other.json"}`, answer(`{`), "not JSON"},
		{"loaded is too large", `{"$ref":"other.json"}`, answer(strings.Repeat(" ", MaxBytes+1)), "larger"},
		{"missing definition", `{"$ref":"#/$defs/x"}`, nil, "schema/x.json"},
		{"too large", strings.Repeat(" ", MaxBytes+1), nil, "larger"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Compile("schema/x.json", []byte(c.raw), c.load)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func BenchmarkValidate(b *testing.B) {
	for _, size := range []int{256, 64 << 10} {
		s, err := Compile("s", []byte(`{"type":"object","required":["query"],"properties":{"query":{"type":"string"},
			"items":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"text":{"type":"string"}},
			"additionalProperties":false}},"a":{"type":"array"}},"additionalProperties":false}`), nil)
		if err != nil {
			b.Fatal(err)
		}
		v := inputOf(size)
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if found := s.Validate(v); found != nil {
					b.Fatal(found)
				}
			}
		})
	}
}
