package envelope

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson/ijsontest"
)

// seedWire adds the golden wire files of a kind to a corpus.
func seedWire(f *testing.F, prefix, ext string) {
	f.Helper()
	files, err := filepath.Glob("testdata/wire/" + prefix + "*" + ext)
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden files: %v", err)
	}
	for _, name := range files {
		body, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
}

// FuzzCodecRequest: what is read by table is what the library reads, and what is refused is what I-JSON and the schema
// refuse. What is accepted survives both encodings unchanged.
func FuzzCodecRequest(f *testing.F) {
	seedWire(f, "request", ".json")
	f.Add([]byte(`{"call_id":1e3,"input":{"a":1,"a":2}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		samePath(t, &asRequest, body)
		before := bytes.Clone(body)
		q, e := DecodeRequest(ContentJSON, body)
		if (e == nil) != accepts(body) {
			t.Fatalf("fast path says %v, schema %v, I-JSON %v", e, RequestSchema().Validate(body), ijson.Check(body))
		}
		if !bytes.Equal(before, body) {
			t.Fatal("the body was changed")
		}
		if e != nil {
			checkRefusal(t, e)
			return
		}
		likeLibrary(t, body, q)
		sameAfterBoth(t, q)
		if _, err := Fingerprint(q); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzDecodeRequestMsgpack: no bytes make it panic, and what is accepted is a valid request.
func FuzzDecodeRequestMsgpack(f *testing.F) {
	seedWire(f, "request", ".msgpack")
	f.Add([]byte{0x81, 0xa1, 'a', 0xdf, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0xdb, 0xff, 0xff, 0xff, 0xff, 'x'})
	f.Fuzz(func(t *testing.T, body []byte) {
		q, e := DecodeRequest(ContentMsgpack, body)
		if e != nil {
			checkRefusal(t, e)
			return
		}
		if e := q.Check(); e != nil {
			t.Fatalf("accepted, but %s %v", e, e.Details.Violations)
		}
		sameAfterBoth(t, q)
	})
}

// FuzzCodecResponse: what is read by table is what the library reads. What is accepted fits the source's schema, is
// coherent, and stays so.
func FuzzCodecResponse(f *testing.F) {
	seedWire(f, "response", ".json")
	f.Fuzz(func(t *testing.T, body []byte) {
		samePath(t, &asResponse, body)
		samePath(t, &asAccepted, body)
		s, e := DecodeResponse(ContentJSON, body)
		if e != nil {
			checkRefusal(t, e)
			return
		}
		if v := ResponseSchema().Validate(body); v != nil {
			t.Fatalf("accepted, but %v", v)
		}
		likeLibrary(t, body, s)
		again, err := EncodeResponse(ContentJSON, s)
		if err != nil {
			t.Fatal(err)
		}
		if v := ResponseSchema().Validate(again); v != nil {
			t.Fatalf("encoded again it breaks its schema: %v\n%s", v, again)
		}
		back, e := DecodeResponse(ContentJSON, again)
		if e != nil {
			t.Fatalf("encoded again it is refused: %s %v\n%s", e, e.Details.Violations, again)
		}
		if diff := cmp.Diff(s, back, cmp.Transformer("canonical", canonicalText)); diff != "" {
			t.Fatalf("encoded again it says something else (-was +is):\n%s", diff)
		}
	})
}

// FuzzCodecRequestValue: the table writes what the library writes, whatever a request holds, and reads it again as the
// library does.
func FuzzCodecRequestValue(f *testing.F) {
	seedValues(f)
	f.Fuzz(func(t *testing.T, set uint64, text string, number int64, value []byte) {
		q := minimalRequest()
		ijsontest.Fill(q, set, text, number, value)
		sameValue(t, &asRequest, q)
	})
}

// FuzzCodecResponseValue is the same for responses.
func FuzzCodecResponseValue(f *testing.F) {
	seedValues(f)
	f.Fuzz(func(t *testing.T, set uint64, text string, number int64, value []byte) {
		r := minimalResponse()
		ijsontest.Fill(r, set, text, number, value)
		sameValue(t, &asResponse, r)
	})
}

func seedValues(f *testing.F) {
	f.Helper()
	for n := range 64 {
		f.Add(uint64(1)<<n, `a "b" \ ü`, int64(1), []byte(`{"b":[1, 2.5],"a":null}`))
	}
	f.Add(^uint64(0), sampleCall, int64(15000), []byte(`{}`))
}

func sameValue[T any](t *testing.T, w *wire[T], v *T) {
	t.Helper()
	want, err := encode(ContentJSON, v)
	if got, ok := w.table.Append(nil, v, nil); ok && (err != nil || !bytes.Equal(got, want)) {
		t.Fatalf("got  %s\nwant %s, %v", got, want, err)
	}
	if err == nil {
		samePath(t, w, want)
	}
}

func checkRefusal(t *testing.T, e *Error) {
	t.Helper()
	if n := len(e.Details.Violations); n == 0 || n > ijson.MaxViolations {
		t.Fatalf("%d violations", n)
	}
	if e.Message == "" || e.Fix == "" || e.Retryable {
		t.Fatalf("incomplete: %+v", e)
	}
	for _, v := range e.Details.Violations {
		if v.Rule == "" || v.Message == "" || len(v.Pointer)+len(v.Message) > 2*ijson.MaxViolationText {
			t.Fatalf("violation %+v", v)
		}
	}
}

// sameAfterBoth encodes q as JSON and as msgpack and compares what comes back.
func sameAfterBoth(t *testing.T, q *Request) {
	t.Helper()
	var forms []string
	for _, ct := range []string{ContentJSON, ContentMsgpack} {
		body, err := EncodeRequest(ct, q)
		if err != nil {
			t.Fatalf("%s: %v", ct, err)
		}
		back, e := DecodeRequest(ct, body)
		if e != nil {
			t.Fatalf("%s: %s %v", ct, e, e.Details.Violations)
		}
		body, err = EncodeRequest(ContentJSON, back)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ijson.Canonical(body)
		if err != nil {
			t.Fatal(err)
		}
		forms = append(forms, string(c))
	}
	if forms[0] != forms[1] {
		t.Fatalf("JSON and msgpack differ:\n%s", strings.Join(forms, "\n"))
	}
}
