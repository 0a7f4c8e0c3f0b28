package envelope

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// A large envelope is read in two parts, and must read as it does in one.
func TestLargeEnvelopes(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("some text, ", 1000)
	for name, row := range map[string]struct {
		input string
		valid bool
	}{
		"text": {`"` + text + `"`, true}, "spaced": {`{ "a" : "` + text + `" }`, true},
		"escape":         {`"\u0041` + text + `"`, true},
		"lone surrogate": {`"\ud800` + text + `"`, false}, "two members": {`"` + text + `","input":1`, false},
		"member smuggled": {`"` + text + `","dry_run":true`, true},
		"big integer":     {`["` + text + `",9007199254740993]`, false},
		"duplicate":       {`{"a":"` + text + `","a":1}`, false},
		"too deep":        {strings.Repeat("[", 64) + `"` + text + `"` + strings.Repeat("]", 64), false},
	} {
		q, e := DecodeRequest("", fmt.Appendf(nil, sampleFormat, row.input))
		if row.valid != (e == nil) {
			if e == nil || name != "member smuggled" { // it is a duplicate, since the sample says dry_run itself
				t.Errorf("%s: %v", name, e)
			}
			continue
		}
		if e == nil && string(q.Input) != row.input {
			t.Errorf("%s: the input has changed", name)
		}
	}
}

func TestLargeEnvelopesRoundTrip(t *testing.T) {
	t.Parallel()
	q, e := DecodeRequest("", fmt.Appendf(nil, sampleFormat, inputOf(20_000, true)))
	if e != nil {
		t.Fatal(e)
	}
	for _, contentType := range []string{ContentJSON, ContentMsgpack} {
		body, err := EncodeRequest(contentType, q)
		if err != nil {
			t.Fatal(err)
		}
		again, e := DecodeRequest(contentType, body)
		if e != nil {
			t.Fatal(contentType, e)
		}
		compact := *q
		compact.Input = q.Input.Clone()
		_ = compact.Input.Compact() // valid as it is
		_ = again.Input.Compact()
		if diff := cmp.Diff(&compact, again); diff != "" {
			t.Errorf("%s (-want +got):\n%s", contentType, diff)
		}
	}
}

// What is appended with its payload as it is, is what the JSON library makes of the whole.
func TestAppend(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("some text, ", 1000)
	for name, payload := range map[string]string{
		"small": `{"a":[1, 2]}`, "text": `"` + text + `"`, "spaced": `{ "a" : "` + text + `" }`,
		"text like its place": `{"a":"\",\"output\":null,\"input\":null","b":"` + text + `","output":null,"input":null}`,
	} {
		q, e := DecodeRequest("", fmt.Appendf(nil, sampleFormat, payload))
		if e != nil {
			t.Fatal(name, e)
		}
		q.Provenance = jsontext.Value(`{"tool":"x","input":null}`)
		got, err := AppendRequest([]byte("before"), q)
		same(t, name, got, err, q)
		r := &Response{CallID: q.CallID, Status: Success, Output: q.Input,
			Provenance: Provenance{ToolID: "t", ToolVersion: "1.0.0"}}
		r.SideEffects = []jsontext.Value{[]byte(`{"kind":"x","output":null}`)}
		got, err = AppendResponse([]byte("before"), r)
		same(t, name, got, err, r)
	}
}

func same(t *testing.T, name string, got []byte, err error, v any) {
	t.Helper()
	whole, failed := encode(ContentJSON, v)
	want, invalid := ijson.Canonical(whole)
	if err != nil || failed != nil || invalid != nil {
		t.Fatal(name, err, failed, invalid)
	}
	after, found := bytes.CutPrefix(got, []byte("before"))
	if is, err := ijson.Canonical(after); !found || err != nil || !bytes.Equal(is, want) {
		t.Errorf("%s: %v, got %s, want %s", name, err, got, want)
	}
}
