package jsonschema

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// formatted returns the pointer and format of each part that s finds.
func formatted(t *testing.T, s *Schema, v string) (all []string) {
	t.Helper()
	found, err := s.Formatted(t.Context(), jsontext.Value(v))
	if err != nil {
		t.Fatalf("%s: %v", v, err)
	}
	for _, f := range found {
		all = append(all, f.Pointer+" "+f.Format)
	}
	return all
}

// A format is found wherever the schema applies to the value, by whatever way it gets there.
func TestFormatted(t *testing.T) {
	raw, err := os.ReadFile("testdata/formats.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := strings.Split(strings.TrimSpace(string(raw)), "\n\n")[1:]
	for _, c := range cases {
		lines := strings.Split(c, "\n\t")
		name, schema, in, want := lines[0], lines[1], lines[2], lines[3:]
		t.Run(name, func(t *testing.T) {
			s := compile(t, schema)
			if bad := s.Validate(jsontext.Value(in)); len(bad) > 0 {
				t.Fatalf("the example is invalid: %v", bad)
			}
			got := formatted(t, s, in)
			for i := range got {
				if got[i][0] == ' ' {
					got[i] = `""` + got[i]
				}
			}
			if len(got) == 0 {
				got = []string{"none"}
			}
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A schema that tries a value in very many ways costs a bounded time, and then the value is not called safe.
func TestFormattedIsBounded(t *testing.T) {
	branch := func(name string) string {
		return `{"properties":{"a":{"$ref":"#/$defs/n"},"x":{"format":"path"}},"type":"object","title":"` + name + `"}`
	}
	s := compile(t, `{"anyOf":[{"$ref":"#/$defs/n"},{}],"$defs":{"n":{"anyOf":[`+branch("x")+`,`+branch("y")+`]}}}`)
	if got := formatted(t, s, `{"a":{"x":"y"},"x":"y"}`); len(got) != 2 {
		t.Errorf("found %q", got)
	}
	deep := strings.Repeat(`{"a":`, 40) + `1` + strings.Repeat(`}`, 40)
	if found, err := s.Formatted(t.Context(), jsontext.Value(deep)); err == nil {
		t.Errorf("found %v", found)
	}
}

// Schemas without a format cost nothing.
func TestNoFormats(t *testing.T) {
	s := compile(t, `{"properties":{"path":{"type":"string"},"format":{"enum":["path"]}},"additionalProperties":false}`)
	if s.HasFormats() {
		t.Error("has formats")
	}
	v := jsontext.Value(`{"path":"x"}`)
	ctx := t.Context()
	if n := testing.AllocsPerRun(10, func() { _, _ = s.Formatted(ctx, v) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestUnformatted(t *testing.T) {
	s := compile(t, `{"properties":{
		"path":{"type":"string"}, "list":{"items":{"properties":{"path":{"type":["string","null"]}}}},
		"mine":{"properties":{"path":{"type":"string","format":"path"}}}, "fixed":{"properties":{"path":{"enum":["a"]}}},
		"number":{"properties":{"path":{"type":"number"}}}, "other":{"type":"string","description":"a path"},
		"many":{"properties":{"path":{"type":"array","items":{"type":"string"}}}},
		"numbers":{"properties":{"path":{"type":"array","items":{"type":"number"}}}},
		"argv":{"properties":{"path":{"type":"array","items":{"type":"string"},"format":"command"}}},
		"any":{"properties":{"path":{}}}, "none":{"properties":{"path":false}},
		"referred":{"properties":{"path":{"$ref":"#/$defs/p"}}}, "text":{"properties":{"path":{"$ref":"#/$defs/a~1b c"}}},
		"choice":{"properties":{"path":{"anyOf":[{"type":"null"},{"type":"string","format":"uri"}]}}},
		"free":{"properties":{"path":{"anyOf":[{"type":"null"},{"type":"string"}]}}}},
		"$defs":{"p":{"type":"string","format":"path"},
			"a/b c":{"type":"string","properties":{"path":{"$ref":"#/$defs/a~1b c"}}}}}`)
	got, err := s.Unformatted(func(name, description string) string {
		if name == "path" || description == "a path" {
			return "path"
		}
		return ""
	})
	var pointers []string
	for at, format := range got {
		if pointers = append(pointers, at); format != "path" {
			t.Errorf("%s is meant as %s", at, format)
		}
	}
	slices.Sort(pointers)
	want := []string{
		"/$defs/a~1b c/properties/path", "/properties/any/properties/path", "/properties/free/properties/path",
		"/properties/list/items/properties/path", "/properties/many/properties/path", "/properties/other",
		"/properties/path", "/properties/text/properties/path",
	}
	if diff := cmp.Diff(want, pointers); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// A schema for strings counts as a member without a name, and one for objects does not.
func TestUnformattedWhole(t *testing.T) {
	for text, want := range map[string]int{
		`{"type":"string"}`: 1, `{"type":["null","array"],"items":{}}`: 1, `{"type":"string","format":"path"}`: 0,
		`{"properties":{"a":{}}}`: 0, `{"type":"object"}`: 0,
	} {
		got, err := compile(t, text).Unformatted(func(name, _ string) string {
			return map[string]string{"": "path"}[name]
		})
		if err != nil || len(got) != want || want == 1 && got[""] != "path" {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// A schema whose members have formats is not compiled for that, which takes a hundred times as long. Before 2019-09, a
// $ref hides the format beside it.
func TestUnformattedDeclared(t *testing.T) {
	const declared = `"properties":{"path":{"$ref":"#/definitions/text","format":"path"}},
		"definitions":{"text":{"type":"string"}}}`
	for text, want := range map[string]int{
		`{` + declared: 0, `{"$schema":"http://json-schema.org/draft-07/schema#",` + declared: 1,
	} {
		if got, err := compile(t, text).Unformatted(pathsAlone); err != nil || len(got) != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	s := compile(t, `{"properties":{"path":{"type":"string","format":"path"},"other":{"type":"string"}}}`)
	if n := testing.AllocsPerRun(10, func() { _, _ = s.Unformatted(pathsAlone) }); n > 100 {
		t.Errorf("%v allocations", n)
	}
}

func pathsAlone(name, _ string) string { return map[string]string{"path": "path"}[name] }

// Random schemas: what a plain reading of the standard says applies to a valid value is always found.
func TestFormattedIsComplete(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 300 {
		document := randomSchema(r, 4)
		raw, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		s := compile(t, string(raw))
		v := randomValue(r, 3)
		in, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		ok, want := plainly(document, v, "")
		if bad := s.Validate(in); (len(bad) == 0) != ok {
			t.Fatalf("%s of %s: %v, want %t", in, raw, bad, ok)
		}
		if !ok {
			continue
		}
		got := formatted(t, s, string(in))
		for _, one := range want {
			found++
			if !slices.Contains(got, one) {
				t.Fatalf("%s of %s: got %q, want %q", in, raw, got, want)
			}
		}
	}
	if found < 30 {
		t.Errorf("the test found %d formats only", found)
	}
}

func randomSchema(r *rand.Rand, depth int) any {
	s := map[string]any{}
	one := func() any { return randomSchema(r, depth-1) }
	if depth == 0 || r.IntN(3) == 0 {
		switch r.IntN(6) {
		case 0:
			return true
		case 1:
			s["const"] = randomValue(r, 0)
		case 2:
			s["type"] = []string{"string", "array", "object", "number"}[r.IntN(4)]
		default:
			s["format"] = formatNames()[r.IntN(3)]
		}
		return s
	}
	for range 1 + r.IntN(2) {
		switch r.IntN(10) {
		case 0:
			s["properties"] = map[string]any{"a": one(), "b": one()}
		case 1:
			s["additionalProperties"] = one()
		case 2:
			s["items"] = one()
		case 3:
			s["allOf"] = []any{one(), one()}
		case 4, 5:
			s["anyOf"] = []any{one(), one()}
		case 6, 7:
			s["oneOf"] = []any{one(), one()}
		case 8:
			s["not"] = one()
		case 9:
			s["if"], s["then"], s["else"] = one(), one(), one()
		}
	}
	return s
}

func randomValue(r *rand.Rand, depth int) any {
	switch r.IntN(4) {
	case 0:
		if depth > 0 {
			return []any{randomValue(r, depth-1), randomValue(r, depth-1)}
		}
	case 1:
		if depth > 0 {
			return map[string]any{"a": randomValue(r, depth-1), "b": randomValue(r, depth-1), "c": randomValue(r, depth-1)}
		}
	case 2:
		return 1.0
	}
	return []string{"x:x", "no uri", "http://a"}[r.IntN(3)]
}

// plainly evaluates the keywords of randomSchema as the standard says: whether v is valid, and the annotations of its
// formats, which are those of all parts of the schema that accept it. Of formats, uri is asserted.
func plainly(schema, v any, at string) (ok bool, formats []string) {
	s, isObject := schema.(map[string]any)
	if !isObject {
		return true, nil
	}
	ok = true
	must := func(sub, v any, at string) {
		good, more := plainly(sub, v, at)
		ok, formats = ok && good, append(formats, more...)
	}
	if of, has := s["const"]; has && !reflect.DeepEqual(of, v) {
		ok = false
	}
	text, isText := v.(string)
	list, isList := v.([]any)
	object, isMap := v.(map[string]any)
	_, isNumber := v.(float64)
	if kind, has := s["type"]; has {
		ok = ok && map[any]bool{"string": isText, "array": isList, "object": isMap, "number": isNumber}[kind]
	}
	if format, has := s["format"].(string); has {
		ok = ok && !(format == FormatURI && text == "no uri")
		formats = append(formats, at+" "+format)
	}
	properties, _ := s["properties"].(map[string]any)
	for name, of := range object {
		if sub, has := properties[name]; has {
			must(sub, of, at+"/"+name)
		} else if sub, has := s["additionalProperties"]; has {
			must(sub, of, at+"/"+name)
		}
	}
	for i, of := range list {
		if sub, has := s["items"]; has {
			must(sub, of, fmt.Sprint(at, "/", i))
		}
	}
	branches := func(keyword string) (accepted int) {
		all, _ := s[keyword].([]any)
		for _, sub := range all {
			if good, more := plainly(sub, v, at); good {
				accepted++
				formats = append(formats, more...)
			}
		}
		return accepted
	}
	all, _ := s["allOf"].([]any)
	ok = ok && branches("allOf") == len(all)
	ok = ok && (s["anyOf"] == nil || branches("anyOf") > 0)
	ok = ok && (s["oneOf"] == nil || branches("oneOf") == 1)
	if sub, has := s["not"]; has {
		good, _ := plainly(sub, v, at)
		ok = ok && !good
	}
	if sub, has := s["if"]; has {
		if good, more := plainly(sub, v, at); good {
			formats = append(formats, more...)
			must(s["then"], v, at)
		} else {
			must(s["else"], v, at)
		}
	}
	return ok, formats
}
