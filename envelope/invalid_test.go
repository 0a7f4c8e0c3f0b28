package envelope

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	google "github.com/google/jsonschema-go/jsonschema"
)

// invalidRequests is the number of requests that TestInvalidRequests makes (000 §10).
const invalidRequests = 20_000

// TestInvalidRequests breaks valid requests at random places, with a fixed seed, until the published schema refuses
// them as another implementation of JSON Schema reads it. Each is refused as invalid_request, and a violation points to
// the place that was broken.
func TestInvalidRequests(t *testing.T) {
	t.Parallel()
	schema := judge(t)
	var valid [][]byte
	for _, q := range []*Request{minimalRequest(), fullRequest()} {
		body, err := EncodeRequest(ContentJSON, q)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(tree(t, body)); err != nil {
			t.Fatalf("the sample is invalid: %v", err)
		}
		valid = append(valid, body)
	}
	b := breaker{rand.New(rand.NewPCG(10, 2026))}
	for n, most := 0, few(invalidRequests); n < most; {
		doc := tree(t, valid[b.IntN(len(valid))])
		where, kind := b.breakOne(doc, "")
		if schema.Validate(doc) == nil {
			continue
		}
		n++
		body, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		checkInvalid(t, body, where, kind)
	}
}

// checkInvalid fails the test unless the body is refused, with a violation at the place or at the object that has it.
func checkInvalid(t *testing.T, body []byte, where, kind string) {
	t.Helper()
	_, e := DecodeRequest(ContentJSON, body)
	if e == nil {
		t.Fatalf("%s at %q was accepted: %s", kind, where, body)
	}
	if e.Code.Status() != InvalidRequest || e.Code != CodeSchema && e.Code != CodeLimit {
		t.Fatalf("%s at %q: %s", kind, where, e)
	}
	checkRefusal(t, e)
	if e.Code == CodeLimit {
		return // of the whole request
	}
	object := where[:strings.LastIndex(where, "/")] // has the violation of a member that is missing or unknown
	for _, v := range e.Details.Violations {
		if p := string(v.Pointer); p == object || p == where || strings.HasPrefix(p, where+"/") {
			return
		}
	}
	t.Fatalf("%s at %q: no violation is there: %v", kind, where, e.Details.Violations)
}

// judge returns the published schema of requests as package jsonschema of Google reads it.
func judge(t *testing.T) *google.Resolved {
	t.Helper()
	text, err := os.ReadFile("schemas/request.json")
	if err != nil {
		t.Fatal(err)
	}
	var s google.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tree(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(body, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// breaker changes JSON documents at random places.
type breaker struct{ *rand.Rand }

// breakOne changes one member of an object or of an object below it. It returns the JSON pointer of the member and what
// was done. Members of input have no rules, so they are never chosen.
func (b breaker) breakOne(object map[string]any, at string) (where, kind string) {
	names := slices.Sorted(maps.Keys(object))
	name := names[b.IntN(len(names))]
	where = at + "/" + name
	if below, ok := object[name].(map[string]any); ok && name != "input" && len(below) > 0 && b.IntN(4) > 0 {
		return b.breakOne(below, where)
	}
	switch b.IntN(4) {
	case 0:
		delete(object, name)
		return where, "removed"
	case 1:
		stranger := "unknown_" + strconv.Itoa(b.IntN(1000))
		object[stranger] = b.value()
		return at + "/" + stranger, "added"
	case 2:
		object[name] = b.beyond(object[name])
		return where, "out of range"
	}
	object[name] = b.value()
	return where, "another value"
}

// value returns a value of a random type.
func (b breaker) value() any {
	all := []any{nil, true, b.NormFloat64(), b.IntN(1 << 30), "", "some text", []any{}, []any{"a", 1.5}, map[string]any{},
		map[string]any{"a": map[string]any{"b": nil}}}
	return all[b.IntN(len(all))]
}

// beyond returns a value of the type of v that few limits allow.
func (b breaker) beyond(v any) any {
	switch v := v.(type) {
	case string:
		return []string{"", strings.Repeat("x", 2049), "ÄÖ\u0000 ", v + "!"}[b.IntN(4)]
	case float64:
		return []float64{-1, -0.5, 1e300, 1 << 53, v + 0.5}[b.IntN(5)]
	case []any:
		if b.IntN(2) == 0 {
			return append(slices.Clone(v), strings.Repeat("x", 2050))
		}
		return append(slices.Clone(v), slices.Repeat([]any{"x"}, 1+b.IntN(300))...)
	case map[string]any:
		return []any{v}
	}
	return []any{v}
}
