package ijson

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func rules(found []Violation) (s []string) {
	for _, v := range found {
		s = append(s, v.Pointer+" "+v.Rule)
	}
	return s
}

func TestCheckIJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	long := strings.Repeat("n", MaxName)
	for _, c := range []struct {
		name, in string
		want     []string
	}{
		{"scalar", `1`, nil},
		{"spaces around", " {\"a\": [1, 2]}\n", nil},
		{"largest integers", `[9007199254740991,-9007199254740991]`, nil},
		{"integer beyond", `{"a":[9007199254740992]}`, []string{"/a/0 integer"}},
		{"negative integer beyond", `-9007199254740992`, []string{" integer"}},
		{"integer of many digits", `1` + strings.Repeat("0", 30), []string{" integer"}},
		{"integer in disguise", `[1e17,9007199254740993.0,1.5e2]`, []string{"/0 integer", "/1 integer"}},
		{"large float", `6.02214076e23`, nil},
		{"beyond float64", `{"x":1e400}`, []string{"/x number"}},
		{"below float64", `[1e-400,0e-400,0.0]`, []string{"/0 number"}},
		{"duplicate", `{"a":1,"a":2}`, []string{"/a duplicate"}},
		{"duplicate in other spelling", `{"a":{"b":1,"\u0062":2,"b":3}}`, []string{"/a/b duplicate", "/a/b duplicate"}},
		{"same name in siblings", `[{"a":1},{"a":{"a":2}}]`, nil},
		{"lone surrogate", `{"a":"\ud800"}`, []string{"/a utf8"}},
		{"surrogate pair", `"\ud83d\ude00"`, nil},
		{"invalid UTF-8", "[\"\xff\"]", []string{"/0 utf8"}},
		{"several", `{"a":1,"a":1e999,"b":["\udc00"]}`, []string{"/a duplicate", "/a number", "/b/0 utf8"}},
		{"deep enough", deep(MaxDepth), nil},
		{"too deep", deep(MaxDepth + 1), []string{strings.Repeat("/0", MaxDepth) + " depth"}},
		{"absurdly deep", deep(100_000), []string{strings.Repeat("/0", MaxDepth) + " depth"}},
		{"long name", `{"` + long + `":1}`, nil},
		{"too long a name", `{"n` + long + `" : 1}`, []string{"/n" + long[:MaxViolationText-len("/n…")] + "… name"}},
		{"long string", `"n` + long + `"`, nil},
		{"nothing", ``, []string{" syntax"}},
		{"cut", `{"a":`, []string{"/a syntax"}},
		{"two values", `1 2`, []string{" syntax"}},
		{"comment", `[1,/**/2]`, []string{"/1 syntax"}},
		{"NaN", `[NaN]`, []string{"/0 syntax"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, rules(Check(jsontext.Value(c.in)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Each violation contains its position.
func TestCheckIJSONSaysWhere(t *testing.T) {
	for in, want := range map[string]string{
		`{"a"`:                            "line 1, column 5: not JSON: ",
		"{\n  \"a\": 1,\n  \"b\": tru\n}": "line 3, column 11: not JSON: ",
		"{\"ä\": \"ö\",\n \"ü\": 1e999}":  "line 2, column 7: the number 1e999 ",
		"[9007199254740993]": "line 1, column 2: the number 9007199254740993 cannot be kept exactly: write it as text, or " +
			"an integer of at most 2^53-1",
		"[\"ok\",\n\"caf\xe9\"]":              "line 2, column 5: the byte 0xe9 in a string ",
		"[1,\r\n\t\"\\ud800\"]":               "line 2, column 2: a string is not valid UTF-8: ",
		"{\"a\":1,\n\"a\":2}":                 "line 2, column 1: the member occurs twice",
		"{}\n\n  {}":                          "line 3, column 3: more than one JSON value",
		"":                                    "line 1, column 1: not JSON: ",
		"[\n" + strings.Repeat("[", MaxDepth): "line 2, column 64: nested deeper than 64",
	} {
		if found := Check(jsontext.Value(in)); len(found) != 1 || !strings.HasPrefix(found[0].Message, want) {
			t.Errorf("%q: %+v, want %s…", in, found, want)
		}
	}
	const two = "{\"n\": 1e999,\n \"m\": [1e999,\n1e999]}"
	var places []string
	for _, v := range Check(jsontext.Value(two)) {
		at, _, _ := strings.Cut(v.Message, ":")
		places = append(places, at)
	}
	if diff := cmp.Diff([]string{"line 1, column 7", "line 2, column 8", "line 3, column 1"}, places); diff != "" {
		t.Error(diff)
	}
}

func TestCheckIJSONIsBounded(t *testing.T) {
	many := jsontext.Value("[" + strings.Repeat("1e999,", 500) + "1]")
	if n := len(Check(many)); n != MaxViolations+1 {
		t.Errorf("%d violations", n)
	}
}

// unreadable reports whether there are violations that the library refuses, too.
func unreadable(found []Violation) bool {
	return slices.ContainsFunc(found, func(v Violation) bool {
		return v.Rule == RuleSyntax || v.Rule == RuleUTF8 || v.Rule == RuleDuplicate
	})
}

// deepOrMany reports whether Check stopped early, so that violations after the last one are unknown.
func deepOrMany(found []Violation) bool {
	return len(found) > MaxViolations || len(found) > 0 && found[len(found)-1].Rule == RuleDepth
}

// FuzzCheckIJSON: the fast check, the complete list and the library agree, and none panics.
func FuzzCheckIJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2.5,"x\u00e9",null,true]}`, `{"a":1,"a":2}`, `"\ud800"`, `[1e400,1e17,-0]`, `{"a":{"b":[[[]]]}}`, ` 1 2`,
		"\"\xff\"", `{"\"":"\\"}`, `{"\u0061":1,"a":2}`, `"\ud83d\ude00\ud83d"`, `[01]`, `{"a":1,}`, `-`, `"\x"`, `tru`,
		"\"\t\"",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		fast, listed := Valid(b), list(b, "").Violations
		if fast != (len(listed) == 0) {
			t.Errorf("fast %t, listed %v", fast, listed)
		}
		if library := jsontext.Value(b).IsValid(); library == unreadable(listed) && !deepOrMany(listed) {
			t.Errorf("the library takes it: %t, listed %v", library, listed)
		}
		if fast {
			if err := json.Unmarshal(b, new(any)); err != nil {
				t.Errorf("I-JSON cannot be decoded: %v", err)
			}
		}
		if !bytes.Equal(before, b) {
			t.Error("the input was changed")
		}
		for _, v := range listed {
			if len(v.Message) > MaxViolationText || len(v.Pointer) > MaxViolationText || v.Message == "" {
				t.Errorf("unbounded or empty: %+v", v)
			}
		}
	})
}
