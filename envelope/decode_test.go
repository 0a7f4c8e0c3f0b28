package envelope

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

func TestDecodeRequestListsAllViolations(t *testing.T) {
	body := `{
		"call_id": "no", "tool_id": "Search Web", "tool_version": "", "fn": 7,
		"context": {"actor_id": "a", "trace_id": null, "timezone": "UTC", "env": "test", "mood": 1, "confidence": 2},
		"constraints": {"timeout_ms": 0, "idempotency_key": "short", "priority": "urgent", "retry_policy": {"tries": 3},
			"memory_mb_limit": 1.5},
		"dry_run": "no", "extra": {}
	}`
	_, e := DecodeRequest("", []byte(body))
	if e == nil || e.Code != CodeSchema || e.Code.Status() != InvalidRequest {
		t.Fatalf("got %v", e)
	}
	want := []string{
		"/call_id format", "/constraints/deadline_unix_ms required", "/constraints/idempotency_key minLength",
		"/constraints/memory_mb_limit type", "/constraints/priority enum",
		"/constraints/timeout_ms minimum", "/context/confidence maximum", "/context/env enum",
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
	deep := strings.Repeat("[", ijson.MaxDepth) + strings.Repeat("]", ijson.MaxDepth)
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
		{"deep input", swap(`"tea"`, deep), CodeLimit, "/input/query" + strings.Repeat("/0", ijson.MaxDepth-2) + " depth"},
		{"long name in input", swap(`{"query"`, `{"`+strings.Repeat("q", ijson.MaxName+1)+`"`), CodeLimit, ""},
		{"session scope without session", swap(`"timeout_ms"`, `"idempotency_scope":"session","timeout_ms"`), CodeSchema,
			"/context/session_id required"},
		{"large head", swap(`"input":`, `"provenance":{"x":"`+strings.Repeat("x", MaxHead)+`"},"input":`), CodeLimit,
			" size"},
		{"large head without input", swap(`"input":{"query":"tea"}`,
			`"provenance":{"x":"`+strings.Repeat("x", MaxHead)+`"}`), CodeLimit, " size"},
		{"crowded head", swap(`"input":`, `"provenance":{"x":[`+strings.Repeat("1,", MaxHeadValues)+`1]},"input":`),
			CodeLimit, " size"},
		{"crowded and odd", swap(`"input":`, `"provenance":{"x":[`+strings.Repeat("1,",
			MaxHeadValues)+`1]},"odd":1.0,"input":`), CodeLimit, " size"},
		{"crowded list", swap(`"env":`, `"scopes":[`+strings.Repeat("1,", MaxHeadValues)+`1],"env":`), CodeLimit, " size"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, e := DecodeRequest("", []byte(c.body))
			if e == nil || q != nil && (q.CallID != sampleCall || q.Input != nil || q.Constraints.TimeoutMS != 0) ||
				e.Code != c.code || len(e.Details.Violations) == 0 {
				t.Fatalf("got %.300v, %v", q, e)
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

// What is counted are the values of the head: an input may have more, and so may a head of nearly as many.
func TestManyValues(t *testing.T) {
	q := minimalRequest()
	q.Input = []byte(`{"x":[` + strings.Repeat("1,", 2*MaxHeadValues) + `1.0]}`)
	good, err := EncodeRequest("", q)
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"large input": string(good),
		"full head": strings.Replace(string(good), `"input":`,
			`"provenance":{"x":[`+strings.Repeat("1,", MaxHeadValues-100)+`1.0]},"input":`, 1),
		"long texts": strings.Replace(string(good), `"input":`,
			`"provenance":{"x":"`+strings.Repeat("[,", MaxHeadValues)+`"},"input":`, 1),
	} {
		if _, e := DecodeRequest("", []byte(body)); e != nil {
			t.Errorf("%s: %v %v", name, e, e.Details.Violations)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		envelope, payload int
		ok                bool
	}{
		{MaxHead, 0, true}, {MaxHead + 1, 0, false}, {MaxDocument, MaxPayload, true},
		{MaxDocument, MaxPayload - 1, false}, {MaxPayload + 2, MaxPayload + 1, false},
	} {
		if e := asRequest.sizes(c.envelope, c.payload); (e == nil) != c.ok || e != nil && e.Code != CodeLimit {
			t.Errorf("%+v: %v", c, e)
		}
	}
	if _, e := DecodeRequest("", make([]byte, MaxDocument+1)); e == nil || e.Code != CodeLimit {
		t.Errorf("a body above the limit: %v", e)
	}
	if _, e := DecodeResponse("", make([]byte, MaxDocument+1)); e == nil || e.Code != CodeOutputLimit {
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
