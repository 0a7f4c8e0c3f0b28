package ijson

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// WriteCanonical writes the same text as jsontext.
func TestWriteCanonical(t *testing.T) {
	pairs := strings.Repeat(`\ud83d\ude00`, 2*maxEscapes/12+1)
	wide := "{"
	for i := range 100 {
		wide += fmt.Sprintf(`%q : %d.0 , `, fmt.Sprint("m", i*37%100), i)
	}
	for _, in := range []string{
		`{}`, `[]`, ` { } `, ` [ ] `, `""`, `"plain"`, `null`, ` true `, `-0`, `1e2`, `[1, -0,-5,1.50,1E30,123456789012345]`,
		`{"b":1,"a":[1e2,-0,"\u0041",{"z":null,"y":[ ]}]}`, `{"\u000a":1,"\n\t":2,"A":3,"\u0041b":4}`,
		`{"\ufb33":1,"\ud83d\ude00":2,"\ue000":3,"€":4,"😀a":5,"😀b":6,"":7}`, `{"aa":1,"a":2,"a!":3}`,
		`"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"`, `"a\\"`, `"\\\\\u0022"`,
		`"` + pairs + `"`, `"x` + pairs + `y"`, `"\n` + pairs + `"`, wide + `"last":{"b" : "\/", "a" : [ {} , {} ]} }`,
	} {
		want := jsontext.Value(bytes.Clone([]byte(in)))
		if err := want.Canonicalize(); err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		var got bytes.Buffer
		if err := WriteCanonical(&got, jsontext.Value(in)); err != nil || got.String() != string(want) {
			t.Errorf("%.200s: %v\n got %.200s\nwant %.200s", in, err, got.String(), want)
		}
	}
}

// FuzzWriteCanonical: whatever is I-JSON is written as Canonical has it.
func FuzzWriteCanonical(f *testing.F) {
	for _, s := range []string{`{"b":1,"a":[1e2,-0,"\u0041"]}`, `{"😀":1,"":2,"a":{"b":{}}}`, ` 1.50 `, `"\u001f\u007f"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want, err := Canonical(b)
		if err != nil {
			return
		}
		var got bytes.Buffer
		if err := WriteCanonical(&got, b); err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("%s: %v\n got %s\nwant %s", b, err, got.Bytes(), want)
		}
	})
}
