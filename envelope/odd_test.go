package envelope

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// accepts is what DecodeRequest promises: I-JSON, valid by the schema, within the sizes.
func accepts(body []byte) bool {
	var parts struct {
		Input jsontext.Value `json:"input"`
	}
	return ijson.Check(body) == nil && RequestSchema().Validate(body) == nil &&
		json.Unmarshal(body, &parts) == nil && len(body)-len(parts.Input) <= MaxHead
}

// TestFastPathAgreesWithSchema puts every odd value at every place of a full request, and at the place of every
// member of one that has only what it must, and leaves every member out, and demands that the fast path and the schema
// say the same.
func TestFastPathAgreesWithSchema(t *testing.T) {
	body, err := EncodeRequest("", openRequest())
	if err != nil {
		t.Fatal(err)
	}
	odd := []string{
		`null`, `true`, `""`, `"x"`, `"session"`, `"wall"`, `"` + strings.Repeat("é", 128) + `"`,
		`"` + strings.Repeat("é", 129) + `"`,
		`"` + strings.Repeat("x", 256) + `"`, `"` + strings.Repeat("x", 257) + `"`, `"` + strings.Repeat("y", 2049) + `"`,
		`"0B8F5B0E-5c1d-4f0e-9f5e-0d5a3c1b2a4D"`, `"0b8f5b0e-5c1d-4f0e-9f5e-0d5a3c1b2a4g"`,
		`"0b8f5b0e05c1d-4f0e-9f5e-0d5a3c1b2a4d"`,
		`"a::b"`, `"a:b"`, `"a::"`, `"::a"`, `"A"`, `"a\n"`, `"\u0061b"`,
		`0`, `-0`, `1`, `1.0`, `0.5`, `1.5`, `15`, `16`, `2`, `-1`, `100`, `101`, `1e2`, `600000`, `600001`, `6e5`,
		`9007199254740991`, `1e300`,
		`[]`, `[""]`, `["` + strings.Repeat("x", 65) + `"]`, `["` + strings.Repeat("x", 257) + `"]`, `[null]`, `[1]`, `[[]]`,
		"[" + strings.Repeat(`"x",`, 128) + `"x"]`, `{}`, `{"x":1}`, `{"x":"y"}`, `{"":"y"}`,
		`{"` + strings.Repeat("x", 129) + `":"y"}`, manyMembers(33),
	}
	tried := 0
	mutate(t, body, odd, func(path []string, body []byte) {
		tried++
		compareVerdicts(t, path, body)
	})
	plain, err := EncodeRequest("", minimalRequest())
	if err != nil {
		t.Fatal(err)
	}
	walkPaths(decodeAny(t, body), nil, func(path []string) {
		if len(path) > 2 || len(path) == 2 && path[0] != "context" && path[0] != "constraints" {
			return
		}
		for _, v := range odd {
			tried++
			compareVerdicts(t, path, edited(t, decodeAny(t, plain), path, v, false))
		}
	})
	escaped := strings.Replace(string(plain), `"constraints":{`, `"constraints":{"memory\u005fmb_limit":0,`, 1)
	compareVerdicts(t, []string{"an escaped name"}, []byte(escaped))
	if tried < few(1000) {
		t.Errorf("tried only %d documents", tried)
	}
}

// TestOddAnswers does the same to what dispatchers send. Of chunks and accepted messages no more is
// demanded than their schemas do. Of a response more is demanded than its schema, which is the source's.
func TestOddAnswers(t *testing.T) {
	odd := []string{
		`null`, `true`, `""`, `"x"`, `0`, `1.0`, `1.5`, `-1`, `1e2`, `9007199254740991`, `[]`, `[1]`, `[{}]`, `{}`, `{"x":1}`,
		`"data"`, `"terminal_error"`, `"` + strings.Repeat("x", 257) + `"`,
	}
	for _, c := range wireCases() {
		if strings.HasPrefix(c.name, "request") {
			continue
		}
		body, err := c.encode("", c.value)
		if err != nil {
			t.Fatal(err)
		}
		mutate(t, body, odd, func(path []string, body []byte) {
			_, e := c.decode("", body)
			found := c.schema.Validate(body)
			if e == nil && found != nil {
				t.Errorf("%s at %v: accepted, but %v", c.name, path, found)
			}
			if e != nil && found == nil && !strings.HasPrefix(c.name, "response") {
				t.Errorf("%s at %v: %v, but the schema takes it: %s", c.name, path, e.Details.Violations, body)
			}
			if e != nil {
				checkRefusal(t, e)
			}
		})
	}
}

// mutate calls try with body changed at every place: a member left out, a strange one added, and
// each odd value put in.
func mutate(t *testing.T, body []byte, odd []string, try func(path []string, body []byte)) {
	t.Helper()
	tree := decodeAny(t, body)
	edit := sampled(func(c change) { try(c.path, edited(t, tree, c.at, c.value, c.value == "")) })
	edit(change{[]string{"zz"}, []string{"zz"}, "1"})
	walkPaths(tree, nil, func(path []string) {
		edit(change{path, path, ""})
		edit(change{path, append(slices.Clone(path), "zz"), "1"})
		for _, v := range odd {
			edit(change{path, path, v})
		}
	})
}

// change is another value at a place below path; without a value, nothing is left there.
type change struct {
	path, at []string
	value    string
}

// sampled returns a function that calls try, with -short for one input in eight only: see .ci/race.
func sampled[T any](try func(T)) func(T) {
	n := 0
	return func(input T) {
		if n++; !testing.Short() || n%8 == 0 {
			try(input)
		}
	}
}

// few is how many of n inputs a sample has.
func few(n int) int {
	if testing.Short() {
		return n / 8
	}
	return n
}

func manyMembers(n int) string {
	var m []string
	for i := range n {
		m = append(m, fmt.Sprintf(`"m%d":"v"`, i))
	}
	return "{" + strings.Join(m, ",") + "}"
}

func compareVerdicts(t *testing.T, path []string, body []byte) {
	t.Helper()
	_, e := DecodeRequest("", body)
	if (e == nil) != accepts(body) {
		t.Errorf("at %v: fast path says %v, schema %v\n%.2000s", path, e, RequestSchema().Validate(body), body)
	}
	if e != nil && len(e.Details.Violations) == 0 {
		t.Errorf("at %v: refused without a reason", path)
	}
}

// walkPaths calls f for every object member and array item of v.
func walkPaths(v any, path []string, f func([]string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			p := append(slices.Clone(path), name)
			f(p)
			walkPaths(v[name], p, f)
		}
	case []any:
		for i, item := range v {
			p := append(slices.Clone(path), fmt.Sprint(i))
			f(p)
			walkPaths(item, p, f)
		}
	}
}

// edited returns v with the value at path replaced by raw, or removed.
func edited(t *testing.T, v any, path []string, raw string, remove bool) []byte {
	t.Helper()
	var edit func(v any, path []string) any
	edit = func(v any, path []string) any {
		if len(path) == 0 {
			return jsontext.Value(raw)
		}
		switch v := v.(type) {
		case map[string]any:
			m := maps.Clone(v)
			if len(path) == 1 && remove {
				delete(m, path[0])
			} else {
				m[path[0]] = edit(m[path[0]], path[1:])
			}
			return m
		case []any:
			var s []any
			for i, item := range v {
				if fmt.Sprint(i) != path[0] {
					s = append(s, item)
				} else if len(path) > 1 || !remove {
					s = append(s, edit(item, path[1:]))
				}
			}
			return s
		}
		return v
	}
	body, err := json.Marshal(edit(v, path), json.Deterministic(true))
	if err != nil {
		t.Fatal(err)
	}
	return body
}
