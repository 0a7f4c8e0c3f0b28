package ijson

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
		if got := IsQuick([]byte(value)); got != want {
			t.Errorf("%q: %t, want %t", value, got, want)
		}
		if want && !jsontext.Value(value).IsValid() {
			t.Errorf("%q is not even valid", value)
		}
	}
}

func FuzzQuick(f *testing.F) {
	f.Add([]byte(`{"a":[1,-0.5e+3,"\n\"",true,false,null,{}],"b":"äöü and more text"}`))
	f.Fuzz(func(t *testing.T, v []byte) {
		if found := list(v); IsQuick(v) && found != nil {
			t.Errorf("%q passes, but %v", v, found)
		}
	})
}

// When the parts of a document are I-JSON, so is the whole, and it says the same.
func FuzzCut(f *testing.F) {
	f.Add([]byte(`{"a":"b,\"input\":null","input": {"x":[1]} ,"c":{"input":2}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		rest, payload, ok := Cut(doc, "input")
		if !ok || !Valid(rest) {
			return
		}
		if found := Check(doc); found != nil {
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
	if !IsQuick(v) || Check(v) != nil || Depth(v) != 1 {
		t.Error("it is valid")
	}
	if text := v[5:]; StringLen(text) != 2*8<<20+4 {
		t.Errorf("the string ends after %d bytes", StringLen(text))
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
		if IsQuick([]byte(v)) != want || Valid([]byte(v)) != want {
			t.Errorf("%q is quick %t, I-JSON %t, want %t", v, IsQuick([]byte(v)), Valid([]byte(v)), want)
		}
	}
	crowd := strings.Repeat(`{"a":1,"b":2,"c":3,"d":`, 50) + `0` + strings.Repeat(`}`, 50)
	if IsQuick([]byte(crowd)) || !Valid([]byte(crowd)) {
		t.Error("the JSON library is not asked about many open names, or says something else")
	}
}

func BenchmarkQuick(b *testing.B) {
	for _, v := range []string{`{"text":"some words to say"}`, `{"a":[1,2,3],"items":[` + strings.Repeat(`{"id":17,"text":"some words that go into the index 17"},`, 3) + `null],"query":"what is the answer"}`} {
		b.Run(fmt.Sprintf("%dB", len(v)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				IsQuick([]byte(v))
			}
		})
	}
}

// What a judge sees has no payload, and all else.
func TestHollow(t *testing.T) {
	for doc, want := range map[string]string{
		`{"a":1,"input":{"x":[1,{}]},"b":2}`: `{"a":1,"input":{},"b":2}`,
		`{"input" : [1,"]"] }`:               `{"input" : [] }`,
		`{"input":"x\"y"}`:                   `{"input":""}`,
		`{"input":12}`:                       `{"input":12}`,
		`{"in":{"input":{"x":1}}}`:           `{"in":{"input":{"x":1}}}`,
		`[]`:                                 `[]`,
		`{}`:                                 `{}`,
	} {
		if got := string(Hollow([]byte(doc), "input")); got != want {
			t.Errorf("of %s is left %s", doc, got)
		}
	}
}
