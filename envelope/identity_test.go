package envelope

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestFingerprint(t *testing.T) {
	q := fullRequest()
	got, err := Fingerprint(q)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("\x00\x00\x00\x40" + ArgumentsHash(q.Input) + "\x00\x00\x00\x04prod" +
		"\x00\x00\x00\x21" + `{"case_id":"C-1","tenant":"acme"}`))
	if want := "args1:" + hex.EncodeToString(sum[:]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if want := "args1:e8753dde8b171b196e5f6afd34c6d93be0f43193f4d9a832fae1cb572e64faeb"; got != want {
		t.Errorf("golden: got %s, want %s", got, want)
	}
}

// A fingerprint says what is the same call.
func TestFingerprintDependsOn(t *testing.T) {
	base, err := Fingerprint(minimalRequest())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Request)
		same   bool
	}{
		"spelling of the input": {func(q *Request) { q.Input = jsontext.Value(` { "query" : "\u0074ea" } `) }, true},
		"empty scope":           {func(q *Request) { q.Context.Scope = map[string]string{} }, true},
		"call id and trace":     {func(q *Request) { q.CallID, q.Context.TraceID = "x", "y" }, true},
		"timeout":               {func(q *Request) { q.Constraints.TimeoutMS = 1 }, true},
		"input":                 {func(q *Request) { q.Input = jsontext.Value(`{"query":"Tea"}`) }, false},
		"env":                   {func(q *Request) { q.Context.Env = "dev" }, false},
		"scope":                 {func(q *Request) { q.Context.Scope = map[string]string{"case_id": "1"} }, false},
		"state":                 {func(q *Request) { q.Context.MCPInput = &MCPInput{State: "x"} }, false},
		"capabilities": {func(q *Request) {
			q.Context.MCPInput = &MCPInput{Capabilities: jsontext.Value(`{}`)}
		}, true},
		"responses": {func(q *Request) {
			q.Context.MCPInput = &MCPInput{Responses: jsontext.Value(`{}`)}
		}, false},
		"where env ends": {func(q *Request) {
			q.Context.Env += `","scope":{}`
		}, false},
	} {
		q := minimalRequest()
		c.change(q)
		got, err := Fingerprint(q)
		if err != nil || (got == base) != c.same {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	for name, change := range map[string]func(*Request){
		"input": func(q *Request) { q.Input = jsontext.Value(`{"a":1,"a":1}`) },
		"scope": func(q *Request) { q.Context.Scope = map[string]string{"a": "\xff"} },
		"env":   func(q *Request) { q.Context.Env = "\xff" },
		"responses": func(q *Request) {
			q.Context.MCPInput = &MCPInput{State: "x", Responses: jsontext.Value(`{"a":1,"a":1}`)}
		},
	} {
		q := minimalRequest()
		change(q)
		if _, err := Fingerprint(q); err == nil {
			t.Errorf("%s that is no I-JSON has a fingerprint", name)
		}
	}
}

// Each part of an answer makes it another request, and its spelling does not.
func TestFingerprintOfAnswer(t *testing.T) {
	seen := map[string]string{}
	for name, in := range map[string]MCPInput{
		"first":        {State: "a", Responses: jsontext.Value(`{"q":{"action":"accept"}}`)},
		"other state":  {State: "b", Responses: jsontext.Value(`{"q":{"action":"accept"}}`)},
		"other answer": {State: "a", Responses: jsontext.Value(`{"q":{"action":"decline"}}`)},
		"no answer":    {State: "a"},
		"boundary":     {State: `a{"q":{"action":"accept"}}`},
	} {
		q := minimalRequest()
		q.Context.MCPInput = &in
		got, err := Fingerprint(q)
		if err != nil || seen[got] != "" {
			t.Errorf("%s is %s, %v", name, seen[got], err)
		}
		seen[got] = name
		in.Responses = append(jsontext.Value(" "), in.Responses...)
		if len(in.Responses) == 1 {
			continue
		}
		if again, err := Fingerprint(q); err != nil || again != got {
			t.Errorf("%s in another spelling: %s, want %s, %v", name, again, got, err)
		}
	}
}

func TestCallKeyID(t *testing.T) {
	if got, want := CallKeyID("acme", fullRequest()), "4reidtfrk20p8kjm8sc16d5d1utmc8fr"; got != want {
		t.Errorf("golden: got %s, want %s", got, want)
	}
	shape := regexp.MustCompile(`^[0-9a-v]{32}$`)
	base := CallKeyID("acme", minimalRequest())
	if !shape.MatchString(base) {
		t.Errorf("id %q", base)
	}
	for name, c := range map[string]struct {
		tenant string
		change func(*Request)
		same   bool
	}{
		"explicit default scope": {"acme", func(q *Request) { q.Constraints.IdempotencyScope = ScopeActor }, true},
		"call id":                {"acme", func(q *Request) { q.CallID = "x" }, true},
		"input":                  {"acme", func(q *Request) { q.Input = jsontext.Value(`1`) }, true},
		"version":                {"acme", func(q *Request) { q.ToolVersion = "2.x" }, true},
		"tenant":                 {"acm", func(*Request) {}, false},
		"actor":                  {"acme", func(q *Request) { q.Context.ActorID = "other" }, false},
		"tool":                   {"acme", func(q *Request) { q.ToolID = "search" }, false},
		"function":               {"acme", func(q *Request) { q.Fn = "q" }, false},
		"dry run":                {"acme", func(q *Request) { q.DryRun = true }, false},
		"key":                    {"acme", func(q *Request) { q.Constraints.IdempotencyKey += "x" }, false},
		"global":                 {"acme", func(q *Request) { q.Constraints.IdempotencyScope = ScopeGlobal }, false},
		"boundary":               {"acme", func(q *Request) { q.ToolID, q.Fn = q.ToolID+q.Fn[:1], q.Fn[1:] }, false},
	} {
		q := minimalRequest()
		c.change(q)
		if got := CallKeyID(c.tenant, q); (got == base) != c.same {
			t.Errorf("%s: same %t", name, got == base)
		}
	}
}

func TestCallKeyIDScopes(t *testing.T) {
	ask := func(scope KeyScope, actor, session string) string {
		q := minimalRequest()
		q.Constraints.IdempotencyScope, q.Context.ActorID, q.Context.SessionID = scope, actor, session
		return CallKeyID("acme", q)
	}
	if ask(ScopeSession, "a", "s") != ask(ScopeSession, "b", "s") ||
		ask(ScopeSession, "a", "s") == ask(ScopeSession, "a", "t") {
		t.Error("session scope must depend on the session only")
	}
	if ask(ScopeGlobal, "a", "s") != ask(ScopeGlobal, "b", "t") {
		t.Error("global scope must depend on neither")
	}
	if ask(ScopeActor, "a", "s") != ask(ScopeActor, "a", "t") || ask(ScopeActor, "x", "") == ask(ScopeSession, "", "x") {
		t.Error("actor scope must depend on the actor only")
	}
}

func TestStableKey(t *testing.T) {
	got, err := StableKey("search.web", "query", "1.x", jsontext.Value(`{"max_results":5, "query":"tea"}`))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(`search.web|query|{"max_results":5,"query":"tea"}|1.x`))
	if want := "sha256-" + hex.EncodeToString(sum[:]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if want := "sha256-11b5877e6c35586a0f92633cae6ce0f0e6d6cd1164105920b741ce72b2059ee5"; got != want {
		t.Errorf("golden: got %s, want %s", got, want)
	}
	if _, err := StableKey("t", "f", "1", jsontext.Value(`{`)); err == nil {
		t.Error("no JSON has a key")
	}
}

func TestArgumentsHash(t *testing.T) {
	a, b := ArgumentsHash(jsontext.Value(`{"a":1,"b":2}`)), ArgumentsHash(jsontext.Value(`{"b":2, "a":1}`))
	if a != b || a != "43258cff783fe7036d8a43033f830adfc60ec037382473548ac742b888292777" {
		t.Errorf("%s, %s", a, b)
	}
	if got := ArgumentsHash(jsontext.Value(`{`)); len(got) != 64 {
		t.Errorf("hash of no JSON: %q", got)
	}
}

// An input has the same hashes, wherever it lies and however it is written.
func TestHashesOfPayload(t *testing.T) {
	q := minimalRequest()
	want, args, err := Hashes(q, []byte(`{"a":"é","b":[1,100]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{"a":"é","b":[1,100]}`, `{ "b": [1, 1e2], "a": "\u00e9" }`} {
		ref := PayloadRef{SHA256: ArgumentsHash([]byte(text))}
		canonical := text[1] != ' '
		if !canonical {
			ref.SHA256 = "that of the text as it is written"
		}
		got, gotArgs, err := HashesOfPayload(q, ref, []byte(text), canonical)
		if err != nil || got != want || gotArgs != args {
			t.Errorf("%s: %s %s, %v; want %s %s", text, got, gotArgs, err, want, args)
		}
	}
}

// Any two requests have the same fingerprint just where they have the same input, env and scope.
func TestFingerprintsAgree(t *testing.T) {
	var all []*Request
	inputs := []string{`{"a":1,"b":[]}`, `{ "b" : [], "a" : 1.0 }`, `{"a":1,"b":{}}`, `{}`, `null`}
	for _, input := range inputs {
		for _, env := range []string{"dev", "prod", ""} {
			for _, scope := range []map[string]string{nil, {}, {"a": "b"}, {"a": "", "b": ""}} {
				q := minimalRequest()
				q.Input, q.Context.Env, q.Context.Scope = jsontext.Value(input), env, scope
				all = append(all, q)
			}
		}
	}
	prints := map[string]string{} // by what a request asks for
	for _, q := range all {
		got, err := Fingerprint(q)
		if err != nil {
			t.Fatalf("%s, %v", got, err)
		}
		asks := fmt.Sprintf("%s %q %v", ArgumentsHash(q.Input), q.Context.Env, q.Context.Scope)
		if known, ok := prints[asks]; ok && known != got {
			t.Errorf("%s has two fingerprints", asks)
		}
		prints[asks] = got
	}
	seen := map[string]bool{}
	for asks, got := range prints {
		if seen[got] {
			t.Errorf("%s has the fingerprint of another", asks)
		}
		seen[got] = true
	}
	if len(seen) != (len(inputs)-1)*3*3 {
		t.Errorf("%d are told apart", len(seen))
	}
}
