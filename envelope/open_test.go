package envelope

import (
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// openPlaces are the objects of each wire type in which a peer may say more.
var openPlaces = map[string][][]string{
	"request":  {{"context"}, {"constraints", "retry_policy"}},
	"response": {{"error"}, {"error", "details"}, {"metrics"}, {"provenance"}},
}

// What a peer says in the open places of an envelope is written on as it was said, in JSON and in msgpack, and
// also where something else in the envelope has to be read in its canonical form.
func TestUnknownMembersAreWrittenOn(t *testing.T) {
	t.Parallel()
	said := []string{
		`null`, `true`, `-0.5`, `1e300`, `9007199254740991`, `""`, `"ü 😀 \u0000 \n"`, `[]`, `{}`, `[{"a":[null,{"b":{}}]}]`,
		`{"input":null,"output":null}`, `"` + strings.Repeat("long text, ", 1000) + `"`,
	}
	names := []string{"", "zz", "ü 😀", "input", "Extra", "CONTEXT", "a/b~c", strings.Repeat("n", ijson.MaxName-2)}
	tried := 0
	for _, c := range wireCases() {
		kind, _, _ := strings.Cut(c.name, "_")
		tree := treeOf(t, c)
		for _, place := range openPlaces[kind] {
			for i := 0; i < len(said) && reaches(tree, place); i++ {
				tried++
				body := edited(t, tree, append(slices.Clone(place), names[i%len(names)]), said[i], false)
				writtenOn(t, c, body)
				writtenOn(t, c, []byte(strings.Replace(string(body), ":15000", ":1.5e4", 1)))
			}
		}
	}
	if tried < 200 {
		t.Errorf("only %d were tried", tried)
	}
}

func treeOf(t *testing.T, c wireCase) any {
	t.Helper()
	body, err := c.encode("", c.value)
	if err != nil {
		t.Fatal(err)
	}
	return decodeAny(t, body)
}

// reaches reports whether there is an object at path.
func reaches(tree any, path []string) bool {
	for _, name := range path {
		m, _ := tree.(map[string]any)
		tree = m[name]
	}
	_, ok := tree.(map[string]any)
	return ok
}

// writtenOn demands that body is accepted, and the same when it is encoded again, in both forms.
func writtenOn(t *testing.T, c wireCase, body []byte) {
	t.Helper()
	got, e := c.decode("", body)
	if e != nil {
		t.Fatalf("%s: %s %v\n%.2000s", c.name, e, e.Details.Violations, body)
	}
	for _, contentType := range []string{ContentJSON, ContentMsgpack} {
		again, err := c.encode(contentType, got)
		if err == nil && contentType == ContentMsgpack {
			again, err = msgpackToJSON(again)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if diff := cmp.Diff(canonicalText(body), canonicalText(again)); diff != "" {
			t.Errorf("%s as %s (-was +is):\n%.2000s", c.name, contentType, diff)
		}
	}
}

// No other object takes a member that it does not know; an accepted message does, and nobody writes that on.
func TestUnknownMembersAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		path   []string
		opened bool
	}{
		{"request_full", []string{"zz"}, false}, {"request_full", []string{"constraints", "zz"}, false},
		{"response_retryable", []string{"zz"}, false}, {"accepted", []string{"zz"}, true},
	} {
		cases := wireCases()
		w := cases[slices.IndexFunc(cases, func(w wireCase) bool { return w.name == c.name })]
		body := edited(t, treeOf(t, w), c.path, "{}", false)
		if _, e := w.decode("", body); (e == nil) != c.opened {
			t.Errorf("%s with %v: %v", c.name, c.path, e)
		}
		if found := w.schema.Validate(body); (found == nil) != c.opened {
			t.Errorf("the schema of %s with %v: %v", c.name, c.path, found)
		}
	}
}

// The schema of errors is as open as their reader.
func TestErrorSchemaIsOpen(t *testing.T) {
	body, err := json.Marshal(openResponse().Error)
	if err != nil {
		t.Fatal(err)
	}
	if found := ErrorSchema().Validate(body); found != nil {
		t.Errorf("%v", found)
	}
}

// Unknown members count towards the limits of the envelope that they are in, and are I-JSON as all of it.
func TestUnknownMembersAreBounded(t *testing.T) {
	fields := map[string]string{"context": `"env":`, "retry_policy": `"base_ms":`}
	nested := func(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }
	good, err := EncodeRequest("", fullRequest())
	if err != nil {
		t.Fatal(err)
	}
	for place, field := range fields {
		for _, c := range []struct {
			name, member string
			code         Code
		}{
			{"as many as may be", `"x":[` + strings.Repeat("1,", MaxHeadValues-100) + `1]`, ""},
			{"too many", `"x":[` + strings.Repeat("1,", MaxHeadValues) + `1]`, CodeLimit},
			{"many members", strings.Trim(manyMembers(MaxHeadValues), "{}"), CodeLimit},
			{"large", `"x":"` + strings.Repeat("x", MaxHead) + `"`, CodeLimit},
			{"as deep as may be", `"x":` + nested(ijson.MaxDepth-3), ""},
			{"too deep", `"x":` + nested(ijson.MaxDepth), CodeLimit},
			{"long name", `"` + strings.Repeat("n", ijson.MaxName+1) + `":1`, CodeLimit},
			{"twice", `"x":1,"\u0078":1`, CodeMalformed},
			{"twice within", `"x":{"a":1,"a":1}`, CodeMalformed},
			{"no UTF-8", "\"x\":\"\xff\"", CodeMalformed},
			{"name without UTF-8", "\"\xff\":1", CodeMalformed},
			{"surrogate", `"x":"\ud800"`, CodeMalformed},
			{"integer", `"x":9007199254740993`, CodeSchema},
			{"number", `"x":1e999`, CodeSchema},
		} {
			body := strings.Replace(string(good), field, c.member+","+field, 1)
			_, e := DecodeRequest("", []byte(body))
			if e == nil && c.code != "" || e != nil && e.Code != c.code {
				t.Errorf("%s of %s: %v", c.name, place, e)
			}
		}
	}
}

// A request whose Extra has the name of another member would be another request to each reader: it is none.
func TestExtraHidesNothing(t *testing.T) {
	q := fullRequest()
	q.Context.Extra = map[string]jsontext.Value{"actor_id": jsontext.Value(`"agent://other"`)}
	if e := q.Check(); e == nil || e.Code != CodeMalformed {
		t.Errorf("got %v", e)
	}
	if _, err := EncodeRequest(ContentMsgpack, q); err == nil {
		t.Error("it is encoded")
	}
}

// Two requests do not differ by what Toolbus does not know of them.
func TestIdentityWithoutExtra(t *testing.T) {
	var prints []string
	for _, q := range []*Request{fullRequest(), openRequest()} {
		print, err := Fingerprint(q)
		if err != nil {
			t.Fatal(err)
		}
		prints = append(prints, print+" "+CallKeyID("acme", q))
	}
	if prints[0] != prints[1] {
		t.Errorf("the identities are %q", prints)
	}
}

// likeLibrary demands that the JSON library reads got out of the same body, but for how numbers and texts are
// spelt: it knows nothing of the hand-written readers.
func likeLibrary[T any](t *testing.T, body []byte, got *T) {
	t.Helper()
	whole, err := ijson.Canonical(body)
	if err != nil {
		t.Fatal(err)
	}
	want := new(T)
	if err := json.Unmarshal(whole, want); err != nil {
		t.Fatalf("%v\n%.2000s", err, body)
	}
	if diff := cmp.Diff(want, got, cmp.Transformer("canonical", canonicalText)); diff != "" {
		t.Errorf("the library reads (-) what is read by hand (+):\n%.2000s\n%.2000s", diff, body)
	}
}

// Whatever an envelope holds, it is read as the JSON library reads it.
func TestReadsLikeLibrary(t *testing.T) {
	t.Parallel()
	odd := []string{`null`, `1`, `1.0`, `"x"`, `[]`, `[{}]`, `{}`, `{"x":{"y":[1e3]}}`}
	read := 0
	for _, c := range wireCases() {
		body, err := c.encode("", c.value)
		if err != nil {
			t.Fatal(err)
		}
		mutate(t, body, odd, func(_ []string, body []byte) {
			switch got, e := c.decode("", body); v := got.(type) {
			case *Request:
				if e == nil {
					read++
					likeLibrary(t, body, v)
				}
			case *Response:
				if e == nil {
					read++
					likeLibrary(t, body, v)
				}
			}
		})
	}
	if read < few(500) {
		t.Errorf("only %d were accepted", read)
	}
}

// extraOf returns members for an open place, with a name that tells which.
func extraOf(place string) map[string]jsontext.Value {
	return map[string]jsontext.Value{
		"new_" + place: jsontext.Value(`{"n":[1,-2.5,null],"a":{}}`), "a " + place: jsontext.Value(`"ü 😀"`),
	}
}
