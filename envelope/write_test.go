package envelope

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson/ijsontest"
)

// The tables write what the JSON library writes, and AppendRequest and AppendResponse return its errors, but for inputs
// that are no I-JSON: these are left to the receiver.
func TestWrite(t *testing.T) {
	t.Parallel()
	ijsontest.Values(3000, func(q *Request) {
		got, err := AppendRequest(nil, q)
		if _, failed := encode(ContentJSON, q); failed != nil && err == nil {
			if !bytes.Contains(got, q.Input) || ijson.Valid(q.Input) {
				t.Errorf("got %s, want %v", got, failed)
			}
			return
		}
		sameAsEncoded(t, q, got, err)
	})
	ijsontest.Values(3000, func(r *Response) {
		got, err := AppendResponse(nil, r)
		sameAsEncoded(t, r, got, err)
	})
	deep := minimalRequest() // as deep as the library lets a value be by itself
	deep.Provenance = jsontext.Value(strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000))
	got, err := AppendRequest(nil, deep)
	sameAsEncoded(t, deep, got, err)
}

func sameAsEncoded(t *testing.T, v any, got []byte, err error) {
	t.Helper()
	want, failed := encode(ContentJSON, v)
	if string(got) != string(want) || fmt.Sprint(err) != fmt.Sprint(failed) {
		t.Errorf("got  %s, %v\nwant %s, %v", got, err, want, failed)
	}
}

// usualRequest has each member that a table writes.
func usualRequest() *Request {
	q := fullRequest()
	q.Context.Scope, q.Context.Confidence, q.Constraints.RetryPolicy = nil, nil, nil
	return q
}

// usualResponses have each member that a table writes, between them.
func usualResponses() []*Response {
	streamed, failed := fullResponse(), retryableResponse()
	streamed.SideEffects, streamed.CommitToken, failed.Error.Details.Extra = nil, nil, nil
	failed.Error.Details.ToolResult = jsontext.Value(`{"isError":true}`)
	return []*Response{minimalResponse(), streamed, refResponse(), failed}
}

// Most calls are written and read by table, and what was read is what was written.
func TestTablesServeMost(t *testing.T) {
	t.Parallel()
	served(t, &asRequest, minimalRequest())
	served(t, &asRequest, usualRequest())
	for _, r := range usualResponses() {
		served(t, &asResponse, r)
	}
	served(t, &asAccepted, sampleAccepted())
}

func served[T any](t *testing.T, w *wire[T], v *T) {
	t.Helper()
	body, ok := w.table.Append(nil, v, nil)
	if !ok {
		t.Errorf("not written by the table: %+v", v)
	}
	got := w.own(body, ijson.Scan(body, w.payload))
	if diff := cmp.Diff(v, got); diff != "" {
		t.Fatalf("read by the table (-want +got):\n%s", diff)
	}
	if w.at != nil && len(*w.at(got)) != cap(*w.at(got)) {
		t.Error("what is appended to the payload overwrites the envelope")
	}
}

// What is too large is not taken because it looks as it should, and no string holds on to a large envelope.
func TestOwnFormIsBounded(t *testing.T) {
	t.Parallel()
	q := minimalRequest()
	q.Provenance = jsontext.Value(`{"x":"` + strings.Repeat("x", maxShared) + `"}`)
	if body := encoded(t, q); asRequest.own(body, ijson.Scan(body, "input")) != nil {
		t.Error("the strings of a large head share its memory")
	}
	r := minimalResponse()
	r.Output = jsontext.Value(`"` + strings.Repeat("x", MaxPayload-1) + `"`)
	body, err := EncodeResponse("", r)
	if err != nil {
		t.Fatal(err)
	}
	if _, e := DecodeResponse("", body); e == nil || e.Code != CodeOutputLimit {
		t.Errorf("an output of %d bytes: %v", len(r.Output), e)
	}
}

// Whatever is wrong with a document in the form of the tables, value and errors are what they are without the tables.
func TestBothPaths(t *testing.T) {
	t.Parallel()
	bothPaths(t, &asRequest, minimalRequest())
	variants(encoded(t, usualRequest()), sampled(func(doc jsontext.Value) { samePath(t, &asRequest, doc) }))
	for _, r := range usualResponses() {
		variants(encoded(t, r), sampled(func(doc jsontext.Value) { samePath(t, &asResponse, doc) }))
	}
	bothPaths(t, &asResponse, refResponse())
	bothPaths(t, &asAccepted, sampleAccepted())
	for _, more := range []string{
		`"memory_mb_limit":0`, `"priority":""`, `"idempotency_scope":""`, `"prefer_streaming":false`, `"cache_key":""`,
		`"budget":null`, `"net_allowlist":[]`, `"priority":"low"`, `"memory_mb_limit":1`,
	} { // in the place of the form, in a request that the schema is not asked about
		samePath(t, &asRequest, bytes.Replace(encoded(t, minimalRequest()), []byte("}}"), []byte(","+more+"}}"), 1))
	}
}

func encoded(t *testing.T, v any) jsontext.Value {
	t.Helper()
	body, err := encode(ContentJSON, v)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func bothPaths[T any](t *testing.T, w *wire[T], v *T) {
	t.Helper()
	body := encoded(t, v)
	variants(body, sampled(func(doc jsontext.Value) { samePath(t, w, doc) }))
	same := sampled(func(doc string) { samePath(t, w, []byte(doc)) })
	for i := range body {
		for _, more := range []string{" ", `"`, `\`, "\xff", "\x01", "0"} {
			same(string(body[:i]) + more + string(body[i:]))
			same(string(body[:i]) + more + string(body[i+1:]))
		}
	}
}

// variants calls try with v after each change of one member: left out, written twice, behind another one, with another
// value. Members stay where they are otherwise.
func variants(v jsontext.Value, try func(jsontext.Value)) {
	all := ijson.Members(v)
	for i, m := range all {
		with := func(of ...ijson.Member) { try(ijson.Object(slices.Concat(all[:i], of, all[i+1:])...)) }
		with()
		with(m, m)
		with(m, ijson.Member{Name: jsontext.Value(`"zz"`), Value: jsontext.Value(`1`)})
		escaped := `"\u00` + hex.EncodeToString(m.Name[1:2]) + string(m.Name[2:])
		with(ijson.Member{Name: jsontext.Value(escaped), Value: m.Value})
		if i > 0 {
			swapped := slices.Clone(all)
			swapped[i-1], swapped[i] = m, all[i-1]
			try(ijson.Object(swapped...))
		}
		values := []string{
			`null`, `true`, `false`, `""`, `"x"`, `"\u0061\""`, `"é\n"`, `"` + strings.Repeat("é", 129) + `"`, `0`, `-0`, `1`,
			`15`, `-1`, `1.0`, `1e2`, `0.5`, `9007199254740991`, `9007199254740992`, `18446744073709551615`,
			`99999999999999999999`, `[]`, `[""]`, `["a","b"]`, `[1]`, `[null]`, `{}`, `{"x": 1}`, ` {"x":1}`, `{"x":1} `,
			`{"a":1,"a":2}`,
		}
		for _, value := range values {
			with(ijson.Member{Name: m.Name, Value: jsontext.Value(value)})
		}
		variants(m.Value, func(value jsontext.Value) { with(ijson.Member{Name: m.Name, Value: value}) })
	}
}

func samePath[T any](t *testing.T, w *wire[T], doc []byte) {
	t.Helper()
	got, e := w.decode(doc)
	want, failed := w.check(doc, ijson.Scan(doc, w.payload), nil)
	if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(e, failed) {
		t.Fatalf("got  %+v, %+v\nwant %+v, %+v\nof %q", got, e, want, failed, doc)
	}
}
