package envelope

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestDecodeRequestListsAllViolations(t *testing.T) {
	body := `{
		"call_id": "no", "tool_id": "Search Web", "tool_version": "", "fn": 7,
		"context": {"actor_id": "a", "trace_id": null, "timezone": "UTC", "env": "test", "mood": 1, "confidence": 2},
		"constraints": {"timeout_ms": 0, "idempotency_key": "short", "priority": "urgent", "retry_policy": {"tries": 3}, "memory_mb_limit": 1.5},
		"dry_run": "no", "extra": {}
	}`
	_, e := DecodeRequest("", []byte(body))
	if e == nil || e.Code != CodeSchema || e.Code.Status() != InvalidRequest {
		t.Fatalf("got %v", e)
	}
	want := []string{
		"/call_id format", "/constraints/deadline_unix_ms required", "/constraints/idempotency_key minLength",
		"/constraints/memory_mb_limit type", "/constraints/priority enum", "/constraints/retry_policy/tries additionalProperties",
		"/constraints/timeout_ms minimum", "/context/confidence maximum", "/context/env enum", "/context/mood additionalProperties",
		"/context/trace_id type", "/dry_run type", "/extra additionalProperties", "/fn type", "/input required",
		"/tool_id pattern", "/tool_version minLength",
	}
	if diff := cmp.Diff(want, rules(e.Details.Violations)); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeRequestRefuses(t *testing.T) {
	good, err := EncodeRequest("", minimalRequest())
	if err != nil {
		t.Fatal(err)
	}
	swap := func(old, new string) string {
		if !bytes.Contains(good, []byte(old)) {
			t.Fatalf("no %s in the sample", old)
		}
		return strings.Replace(string(good), old, new, 1)
	}
	deep := strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth)
	for _, c := range []struct {
		name, body string
		code       Code
		want       string
	}{
		{"empty", "", CodeMalformed, " syntax"},
		{"null", "null", CodeSchema, " type"},
		{"array", "[]", CodeSchema, " type"},
		{"cut", string(good[:len(good)-1]), CodeMalformed, " syntax"},
		{"trailing", string(good) + "1", CodeMalformed, " syntax"},
		{"duplicate", swap(`"fn":`, `"fn":"a","fn":`), CodeMalformed, "/fn duplicate"},
		{"duplicate in input", swap(`{"query":"tea"}`, `{"a":1,"a":1}`), CodeMalformed, "/input/a duplicate"},
		{"surrogate in input", swap(`"tea"`, `"\ud800"`), CodeMalformed, "/input/query utf8"},
		{"invalid UTF-8", swap(`"tea"`, "\"\xff\""), CodeMalformed, "/input/query utf8"},
		{"integer in input", swap(`"tea"`, `9007199254740993`), CodeSchema, "/input/query integer"},
		{"number in input", swap(`"tea"`, `1e999`), CodeSchema, "/input/query number"},
		{"deep input", swap(`"tea"`, deep), CodeLimit, "/input/query" + strings.Repeat("/0", MaxDepth-2) + " depth"},
		{"long name in input", swap(`{"query"`, `{"`+strings.Repeat("q", MaxName+1)+`"`), CodeLimit, ""},
		{"session scope without session", swap(`"timeout_ms"`, `"idempotency_scope":"session","timeout_ms"`), CodeSchema, "/context/session_id required"},
		{"large head", swap(`"input":`, `"provenance":{"x":"`+strings.Repeat("x", MaxHead)+`"},"input":`), CodeLimit, " size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, e := DecodeRequest("", []byte(c.body))
			if e == nil || q != nil || e.Code != c.code || len(e.Details.Violations) == 0 {
				t.Fatalf("got %v, %v", q, e)
			}
			if got := rules(e.Details.Violations)[0]; c.want != "" && got != c.want {
				t.Errorf("violation %q, want %q", got, c.want)
			}
			if e.Details.Effect != EffectNone {
				t.Errorf("effect %s", e.Details.Effect)
			}
		})
	}
}

func TestDecodeRequestSizes(t *testing.T) {
	q := minimalRequest()
	q.Input = append(append([]byte(`"`), bytes.Repeat([]byte("x"), MaxPayload-2)...), '"')
	body, err := EncodeRequest("", q)
	if err != nil {
		t.Fatal(err)
	}
	if _, e := DecodeRequest("", body); e != nil {
		t.Errorf("the largest payload is refused: %s", e)
	}
	q.Input = append(q.Input[:len(q.Input)-1], 'x', '"')
	if body, err = EncodeRequest("", q); err != nil {
		t.Fatal(err)
	}
	if _, e := DecodeRequest("", body); e == nil || e.Code != CodeLimit {
		t.Errorf("a payload above the limit: %v", e)
	}
	if _, e := DecodeRequest("", make([]byte, MaxDocument+1)); e == nil || e.Code != CodeLimit {
		t.Errorf("a body above the limit: %v", e)
	}
}

// TestIntegersInOtherSpellings: the schema takes 1.0 and 15e3 for integers, so we do.
func TestIntegersInOtherSpellings(t *testing.T) {
	body, err := EncodeRequest("", minimalRequest())
	if err != nil {
		t.Fatal(err)
	}
	body = bytes.Replace(body, []byte("15000"), []byte("15e3"), 1)
	body = bytes.Replace(body, []byte("1734378895123"), []byte("1734378895123.0"), 1)
	q, e := DecodeRequest("", body)
	if e != nil {
		t.Fatalf("%v", e.Details.Violations)
	}
	if q.Constraints.TimeoutMS != 15000 || q.Constraints.DeadlineUnixMS != 1734378895123 {
		t.Errorf("%+v", q.Constraints)
	}
}

func TestRequestCheck(t *testing.T) {
	if e := fullRequest().Check(); e != nil {
		t.Errorf("%s %v", e, e.Details.Violations)
	}
	q := minimalRequest()
	q.Fn = ""
	if e := q.Check(); e == nil || e.Details.Violations[0].Pointer != "/fn" {
		t.Errorf("got %v", e)
	}
	q.Fn = "\xff"
	if e := q.Check(); e == nil || e.Code != CodeMalformed {
		t.Errorf("got %v", e)
	}
}

// accepts is what DecodeRequest promises: I-JSON, valid by the schema, within the sizes.
func accepts(body []byte) bool {
	var parts struct {
		Input jsontext.Value `json:"input"`
	}
	return CheckIJSON(body) == nil && RequestSchema().Validate(body) == nil &&
		json.Unmarshal(body, &parts) == nil && len(body)-len(parts.Input) <= MaxHead
}

// TestFastPathAgreesWithSchema puts every odd value at every place of a full request, and leaves
// every member out, and demands that the fast path and the schema say the same.
func TestFastPathAgreesWithSchema(t *testing.T) {
	body, err := EncodeRequest("", fullRequest())
	if err != nil {
		t.Fatal(err)
	}
	odd := []string{
		`null`, `true`, `""`, `"x"`, `"session"`, `"wall"`, `"` + strings.Repeat("é", 128) + `"`, `"` + strings.Repeat("é", 129) + `"`,
		`"` + strings.Repeat("x", 256) + `"`, `"` + strings.Repeat("x", 257) + `"`, `"` + strings.Repeat("y", 2049) + `"`,
		`"0B8F5B0E-5c1d-4f0e-9f5e-0d5a3c1b2a4D"`, `"0b8f5b0e-5c1d-4f0e-9f5e-0d5a3c1b2a4g"`, `"0b8f5b0e05c1d-4f0e-9f5e-0d5a3c1b2a4d"`,
		`"a::b"`, `"a:b"`, `"a::"`, `"::a"`, `"A"`, `"a\n"`, `"\u0061b"`,
		`0`, `-0`, `1`, `1.0`, `0.5`, `1.5`, `15`, `16`, `2`, `-1`, `100`, `101`, `1e2`, `600000`, `600001`, `6e5`, `9007199254740991`, `1e300`,
		`[]`, `[""]`, `["` + strings.Repeat("x", 65) + `"]`, `["` + strings.Repeat("x", 257) + `"]`, `[null]`, `[1]`, `[[]]`,
		"[" + strings.Repeat(`"x",`, 128) + `"x"]`, `{}`, `{"x":1}`, `{"x":"y"}`, `{"":"y"}`, `{"` + strings.Repeat("x", 129) + `":"y"}`, manyMembers(33),
	}
	tree, err := decodeAny(body)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	try := func(path []string) {
		compareVerdicts(t, path, edited(t, tree, path, "", true))
		compareVerdicts(t, path, edited(t, tree, append(slices.Clone(path), "zz"), "1", false))
		for _, v := range odd {
			tried++
			compareVerdicts(t, path, edited(t, tree, path, v, false))
		}
	}
	walkPaths(tree, nil, try)
	if tried < 1000 {
		t.Errorf("tried only %d documents", tried)
	}
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
