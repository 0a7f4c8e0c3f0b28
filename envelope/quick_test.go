package envelope

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestQuick(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		`{"a":[1,-0.5e+3,"\n\"",true,false,null,{}],"b":[]}`: true, ` "äöü" `: true, `"0123456789abcdef"`: true,
		`-0`: true, `1E9`: true, `"\u0041"`: false, `{"a":1,"a":2}`: false, `{"\n":1}`: false, `"` + "\xff" + `"`: false, `"` + "\t" + `"`: false,
		"\"01234567\x1f\"": false, `01`: false, `1.`: false, `.5`: false, `1e`: false, `tru`: false, `[1,]`: false, `[1 2]`: false, `{"a"}`: false,
		`{"a":1,}`: false, `{1:2}`: false, ``: false, `1 1`: false, `"a`: false, `"\`: false, `"\"`: false, `[`: false, `{`: false, `-`: false,
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth): true, strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1): false,
		strings.Repeat(`{"":`, MaxDepth) + "{}" + strings.Repeat("}", MaxDepth): false, `{"` + strings.Repeat("n", MaxName) + `":1}`: false,
		`9007199254740991`: true, `[9007199254740992]`: false, `1e400`: false, `1e17`: false,
	} {
		if got := isQuick([]byte(value)); got != want {
			t.Errorf("%q: %t, want %t", value, got, want)
		}
		if want && !jsontext.Value(value).IsValid() {
			t.Errorf("%q is not even valid", value)
		}
	}
}

// A large envelope is read in two parts, and must read as it does in one.
func TestLargeEnvelopes(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("some text, ", 1000)
	for name, row := range map[string]struct {
		input string
		valid bool
	}{
		"text": {`"` + text + `"`, true}, "spaced": {`{ "a" : "` + text + `" }`, true}, "escape": {`"\u0041` + text + `"`, true},
		"lone surrogate": {`"\ud800` + text + `"`, false}, "two members": {`"` + text + `","input":1`, false},
		"member smuggled": {`"` + text + `","dry_run":true`, true}, "big integer": {`["` + text + `",9007199254740993]`, false},
		"duplicate": {`{"a":"` + text + `","a":1}`, false}, "too deep": {strings.Repeat("[", 64) + `"` + text + `"` + strings.Repeat("]", 64), false},
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
		r := Succeeded(q.CallID, q.Input, Provenance{ToolID: "t", ToolVersion: "1.0.0"}, Metrics{})
		r.SideEffects = []jsontext.Value{[]byte(`{"kind":"x","output":null}`)}
		got, err = AppendResponse([]byte("before"), r)
		same(t, name, got, err, r)
	}
}

func same(t *testing.T, name string, got []byte, err error, v any) {
	t.Helper()
	whole, failed := encode(ContentJSON, v)
	want, invalid := Canonical(whole)
	if err != nil || failed != nil || invalid != nil {
		t.Fatal(name, err, failed, invalid)
	}
	after, found := bytes.CutPrefix(got, []byte("before"))
	if is, err := Canonical(after); !found || err != nil || !bytes.Equal(is, want) {
		t.Errorf("%s: %v, got %s, want %s", name, err, got, want)
	}
}

func FuzzQuick(f *testing.F) {
	f.Add([]byte(`{"a":[1,-0.5e+3,"\n\"",true,false,null,{}],"b":"äöü and more text"}`))
	f.Fuzz(func(t *testing.T, v []byte) {
		if found := listIJSON(v); isQuick(v) && found != nil {
			t.Errorf("%q passes, but %v", v, found)
		}
	})
}

// When the parts of a document are I-JSON, so is the whole, and it says the same.
func FuzzCut(f *testing.F) {
	f.Add([]byte(`{"a":"b,\"input\":null","input": {"x":[1]} ,"c":{"input":2}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		rest, payload, ok := cut(doc, "input")
		if !ok || !isIJSON(rest) {
			return
		}
		if found := CheckIJSON(doc); found != nil {
			t.Fatalf("%q: %v, but its parts %q and %q are fine", doc, found, rest, payload)
		}
		var whole, parts map[string]jsontext.Value
		if err := json.Unmarshal(doc, &whole); err != nil {
			t.Fatalf("%q: %v, but its parts %q and %q are valid", doc, err, rest, payload)
		}
		if err := json.Unmarshal(rest, &parts); err != nil {
			t.Fatal(err)
		}
		if string(parts["input"]) != "null" {
			t.Fatalf("%q has no null for the input", rest)
		}
		parts["input"] = payload
		for name, v := range parts {
			if !bytes.Equal(bytes.TrimSpace(v), bytes.TrimSpace(whole[name])) {
				t.Errorf("%q: %s is %s, was %s", doc, name, v, whole[name])
			}
		}
	})
}

// A string of nothing but escapes takes time in proportion to its length: with a look for its end at
// every escape, this test would take hours, and so would a dispatcher with such a request.
func TestStringsOfEscapes(t *testing.T) {
	v := []byte(`{"a":"` + strings.Repeat(`\n`, 8<<20) + `\"","b":"` + strings.Repeat(`\"`, 1<<20) + `"}`)
	if !isQuick(v) || CheckIJSON(v) != nil || Depth(v) != 1 {
		t.Error("it is valid")
	}
	if text := v[5:]; stringLen(text) != 2*8<<20+4 {
		t.Errorf("the string ends after %d bytes", stringLen(text))
	}
}

// Names are compared in the objects that are open, whatever lies between them.
func TestQuickNames(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":1,"b":2,"c":3,"d":`, 31) + `{"a":{"b":1,"c":2},"b":[{"a":1},{"a":2}]` + strings.Repeat(`}`, 32)
	for v, want := range map[string]bool{
		`{"a":{"a":1,"b":{"a":2}},"b":[{"a":1},{"a":1}],"c":0}`: true,
		`{"a":{"b":1},"c":2,"a":3}`:                             false,
		`{"a":1,"b":{"c":1,"d":2,"c":3}}`:                       false,
		deep:                                                    true,
		strings.Replace(deep, `"c":3`, `"b":3`, 1):              false,
		strings.Replace(deep, `"c":2`, `"b":2`, 1):              false,
	} {
		if isQuick([]byte(v)) != want || isIJSON([]byte(v)) != want {
			t.Errorf("%q is quick %t, I-JSON %t, want %t", v, isQuick([]byte(v)), isIJSON([]byte(v)), want)
		}
	}
	crowd := strings.Repeat(`{"a":1,"b":2,"c":3,"d":`, 50) + `0` + strings.Repeat(`}`, 50)
	if isQuick([]byte(crowd)) || !isIJSON([]byte(crowd)) {
		t.Error("the JSON library is not asked about many open names, or says something else")
	}
}

func BenchmarkQuick(b *testing.B) {
	for _, v := range []string{`{"text":"some words to say"}`, inputOf(256, false)} {
		b.Run(fmt.Sprintf("%dB", len(v)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				isQuick([]byte(v))
			}
		})
	}
}
