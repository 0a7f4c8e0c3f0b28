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
		`-0`: true, `1E9`: true, `"\u0041"`: true, `{"a":1,"a":2}`: false, `{"\n":1}`: true, `"` + "\xff" + `"`: false,
		`"` + "\t" + `"`:   false,
		"\"01234567\x1f\"": false, `01`: false, `1.`: false, `.5`: false, `1e`: false, `tru`: false, `[1,]`: false,
		`[1 2]`: false, `{"a"}`: false,
		`{"a":1,}`: false, `{1:2}`: false, ``: false, `1 1`: false, `"a`: false, `"\`: false, `"\"`: false, `[`: false,
		`{`: false, `-`: false,
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth):           true,
		strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1):       false,
		strings.Repeat(`{"":`, MaxDepth) + "{}" + strings.Repeat("}", MaxDepth): false,
		`{"` + strings.Repeat("n", MaxName+1) + `":1}`:                          false,
		`9007199254740991`: true, `[9007199254740992]`: false, `1e400`: false, `1e17`: false,
	} {
		if got := Valid([]byte(value)); got != want {
			t.Errorf("%q: %t, want %t", value, got, want)
		}
		if want && !jsontext.Value(value).IsValid() {
			t.Errorf("%q is not even valid", value)
		}
	}
}

// If the parts of a document are I-JSON, the whole is, too, with the same value.
func FuzzCut(f *testing.F) {
	f.Add([]byte(`{"a":"b,\"input\":null","input": {"x":[1]} ,"c":{"input":2}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		text := Scan(doc, "input")
		if text.Violations != nil || text.End == 0 {
			return
		}
		rest, payload := text.Split(doc)
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

// A string of escapes is read in time proportional to its length. With a search for its end at every escape, this test
// would take hours, and so would a dispatcher with such a request.
func TestStringsOfEscapes(t *testing.T) {
	v := []byte(`{"a":"` + strings.Repeat(`\n`, 8<<20) + `\"","b":"` + strings.Repeat(`\"`, 1<<20) + `"}`)
	if !Valid(v) || Check(v) != nil || Depth(v) != 1 {
		t.Error("it is valid")
	}
	if text := v[5:]; StringLen(text) != 2*8<<20+4 {
		t.Errorf("the string ends after %d bytes", StringLen(text))
	}
}

// Names are compared in the objects that are open, whatever lies between them.
func TestQuickNames(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":1,"b":2,"c":3,"d":`,
		31) + `{"a":{"b":1,"c":2},"b":[{"a":1},{"a":2}]` + strings.Repeat(`}`, 32)
	for v, want := range map[string]bool{
		`{"a":{"a":1,"b":{"a":2}},"b":[{"a":1},{"a":1}],"c":0}`: true,
		`{"a":{"b":1},"c":2,"a":3}`:                             false,
		`{"a":1,"b":{"c":1,"d":2,"c":3}}`:                       false,
		deep:                                                    true,
		strings.Replace(deep, `"c":3`, `"b":3`, 1):              false,
		strings.Replace(deep, `"c":2`, `"b":2`, 1):              false,
	} {
		if Valid([]byte(v)) != want {
			t.Errorf("%q is I-JSON %t, want %t", v, Valid([]byte(v)), want)
		}
	}
	crowd := strings.Repeat(`{"a":1,"b":2,"c":3,"d":`, 50) + `0` + strings.Repeat(`}`, 50)
	if !Valid([]byte(crowd)) || Valid([]byte(strings.Replace(crowd, `"c":3`, `"b":3`, 1))) {
		t.Error("many open names are not told apart")
	}
}

func BenchmarkQuick(b *testing.B) {
	for _, v := range []string{`{"text":"some words to say"}`,
		`{"a":[1,2,3],"items":[` + strings.Repeat(`{"id":17,"text":"some words that go into the index 17"},`,
			3) + `null],"query":"what is the answer"}`} {
		b.Run(fmt.Sprintf("%dB", len(v)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Valid([]byte(v))
			}
		})
	}
}

// Scan finds the member, whose content counts as one value.
func TestSplit(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		doc, rest, member string
		values            int
	}{
		{`{"a":1,"input":{"x":[1,{}]},"b":2}`, `{"a":1,"input":null,"b":2}`, `{"x":[1,{}]}`, 5},
		{`{"input" : [1,"]"] }`, `{"input" : null }`, `[1,"]"]`, 3},
		{`{"input":"x\"y"}`, `{"input":null}`, `"x\"y"`, 2},
		{`{"input":1e999,"input":2}`, `{"input":null,"input":2}`, `1e999`, 3},
		{`{"in":{"input":{"x":1}}}`, ``, ``, 4},
		{`["input"]`, ``, ``, 2},
		{`{}`, ``, ``, 2},
	} {
		text := Scan([]byte(row.doc), "input")
		if text.Values != row.values || (text.End != 0) != (row.rest != "") {
			t.Errorf("%s: %+v", row.doc, text)
		}
		if rest, member := text.Split([]byte(row.doc)); text.End != 0 &&
			(string(rest) != row.rest || string(member) != row.member) {
			t.Errorf("of %s is left %s, without %s", row.doc, rest, member)
		}
	}
}
