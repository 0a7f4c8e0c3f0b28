package ijson

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestMend(t *testing.T) {
	long := strings.Repeat("n", MaxName+1)
	for in, want := range map[string]struct {
		text  string
		found []string
	}{
		`{"id":1234567890123456789}`: {`{"id":"1234567890123456789"}`, []string{"/id integer 1234567890123456789 exact"}},
		`[1e400,-1e-400,1e17]`: {`["1e400","-1e-400","1e17"]`,
			[]string{"/0 number 1e400 exact", "/1 number -1e-400 exact", "/2 integer 1e17 exact"}},
		`{"a":NaN,"b":[Infinity,-Infinity]}`: {`{"a":null,"b":[null,null]}`,
			[]string{"/a syntax NaN", "/b/0 syntax Infinity", "/b/1 syntax -Infinity"}},
		`["\ud800x","\ud83d\ude00"]`: {`["` + "\ufffd" + `x","\ud83d\ude00"]`, []string{`/0 utf8 "\ud800x" exact`}},
		"[\"caf\xe9\",\"a\tb\"]":     {`["caf` + "\ufffd" + `","a\u0009b"]`, []string{"/0 utf8 \"caf\xe9\""}},
		`{"a":1e999,"b":2,"\u0061":{"c":1e999},"a":3}`: {`{"b":2,"a":3}`,
			[]string{"/a duplicate 1e999", `/a duplicate {"c":1e999}`}},
		`{"a":1,"a":[1e999]}`: {`{"a":["1e999"]}`, []string{"/a duplicate 1", "/a/0 number 1e999 exact"}},
		`{"\ud800":1}`:        {`{"` + "\ufffd" + `":1}`, []string{"/\ufffd utf8 \"\\ud800\" name"}},
		`[[[[1]],2]]`:         {`[[["[1]"],2]]`, []string{"/0/0/0 depth [1] exact"}},
		`{"` + long + `":1}`: {`{"` + long[:MaxName-19] + `…` + digestOf(long) + `":1}`,
			[]string{"/" + long[:MaxName-19] + "…" + digestOf(long) + ` name "` + long + `" name`}},
	} {
		got, found, ok := Mend(jsontext.Value(in), 3)
		var list []string
		for _, r := range found.List {
			is := fmt.Sprintf("%s %s %s", r.Pointer, r.Rule, r.Was)
			switch {
			case r.Exact():
				is += " exact"
			case r.Name:
				is += " name"
			}
			list = append(list, is)
		}
		if !ok || string(got) != want.text {
			t.Errorf("%.80s became %s, want %s", in, got, want.text)
		}
		if diff := cmp.Diff(want.found, list); diff != "" {
			t.Errorf("%.80s: %s", in, diff)
		}
	}
}

func digestOf(name string) string {
	cut := string(shortened([]byte(name)))
	return cut[len(cut)-16:]
}

func TestMendIsFor(t *testing.T) {
	for _, in := range []string{
		``, `{`, `[1,]`, `{"a"}`, `{"a":}`, `{"a":1,` +
			`}`, `nul`, `"\x"`, `"a`, `1 2`, `[NaNa]`, `{"result":{"content":[,"id":3}`, `01`,
		`[[[[`, `"\`,
	} {
		if got, _, ok := Mend(jsontext.Value(in), 3); ok {
			t.Errorf("%s became %s", in, got)
		}
	}
}

func TestMendIsBounded(t *testing.T) {
	many := "[" + strings.Repeat("1e999,", MaxRepairs+10) + `{"a":1,"a":2}]`
	got, found, ok := Mend(jsontext.Value(many), MaxDepth)
	if !ok || !Valid(got) || len(found.List) != MaxRepairs || found.More != 11 {
		t.Errorf("%t, %d and %d more", ok, len(found.List), found.More)
	}
	deep := strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000)
	if got, found, ok := Mend(jsontext.Value(deep), MaxDepth); !ok || !Valid(got) || len(found.List) != 1 {
		t.Errorf("%t: %.200s", ok, got)
	}
}

// FuzzMend: the result is I-JSON of at most the given depth. Such a text comes back unchanged, and each JSON text has
// a result.
func FuzzMend(f *testing.F) {
	for _, s := range []string{
		`{"a":[1,2.5,"x\u00e9",null,true]}`, `{"a":1,"a":2}`, `"\ud800"`, `[1e400,1e17,` +
			`-0]`, `{"a":{"b":[[[]]]}}`, ` 1 2`,
		"\"\xff\"", `{"\"":"\\"}`, `{"\u0061":1,"a":{"b":1,` +
			`"b":NaN}}`, `"\ud83d\ude00\ud83d"`, `[01]`, `{"a":1,}`, `-Infinity`,
		`{"\ud800":1,"\ud801":[9007199254740993]}`, "\"\t\"", `[ 1 , { } , [ ] ]`,
	} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, depth int) {
		if depth < 1 || depth > MaxDepth {
			depth = MaxDepth
		}
		before := string(b)
		got, found, ok := Mend(b, depth)
		fine := Valid(b) && Depth(b) <= depth
		switch {
		case string(b) != before:
			t.Fatal("the input was changed")
		case !ok && jsontext.Value(b).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)):
			t.Fatalf("%q is JSON, and was not mended", b)
		case !ok:
			return
		case !Valid(got) || Depth(got) > depth:
			t.Fatalf("%q became %q, which is no I-JSON of depth %d", b, got, depth)
		case fine && (string(got) != before || len(found.List) > 0):
			t.Fatalf("%q was fine, and became %q with %v", b, got, found)
		}
		if again, _, ok := Mend(got, depth); !ok || string(again) != string(got) {
			t.Fatalf("%q is not stable: %q", got, again)
		}
	})
}

// FuzzMembers: an object or array of I-JSON equals the one made from its parts.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{"a":1,"b" : [ {} , "x,]" ] }`, ` [ 1 , {"a":[]} ,` +
		`"]" ] `, `{}`, `[]`, `1`, `{"\u0061":"\""}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if !Valid(b) {
			return
		}
		var again jsontext.Value
		switch jsontext.Value(b).Kind() {
		case '{':
			again = Object(Members(b)...)
		case '[':
			again = Array(Items(b)...)
		default:
			if Members(b) != nil || Items(b) != nil {
				t.Errorf("%q has parts", b)
			}
			return
		}
		want := jsontext.Value(b).Clone()
		if want.Compact() != nil || again.Compact() != nil || string(again) != string(want) {
			t.Errorf("%q became %q", b, again)
		}
	})
}
