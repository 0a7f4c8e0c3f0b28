package ijson

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestCanonical has the vectors of RFC 8785 (section 3.2 and appendix B) among others.
func TestCanonical(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"b":1,"a":2}`, `{"a":2,"b":1}`},
		{` [ 1 , 2 ] `, `[1,2]`},
		{`-0`, `0`},
		{`[1.0,1e2,10.50,0.000001,1e-7]`, `[1,100,10.5,0.000001,1e-7]`},
		{`[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001]`, `[333333333.3333333,1e+30,4.5,0.002,1e-27]`},
		{`[4.9406564584124654e-324,1.7976931348623157e308,1e21,9007199254740991]`,
			`[5e-324,1.7976931348623157e+308,1e+21,9007199254740991]`},
		{`"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/"`, `"€$\u000f\nA'B\"\\\\\"/"`},
		{`{"\u20ac":"Euro","\r":"CR","\ufb33":"Hebrew","1":"One","\ud83d\ude00":"Emoji","\u0080":"Control","\u00f6":"o"}`,
			"{\"\\r\":\"CR\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"o\",\"€\":\"Euro\",\"😀\":\"Emoji\",\"\ufb33\":" +
				"\"Hebrew\"}"},
		{`{"a":{"z":[{"y":1,"x":2}]}}`, `{"a":{"z":[{"x":2,"y":1}]}}`},
		{`{"aa":1,"a":2,"a!":3}`, `{"a":2,"a!":3,"aa":1}`},
		{`{"":1}`, `{"":1}`},
		{`{"a":"x:","b":":"}`, `{"a":"x:","b":":"}`},
	} {
		in := []byte(c.in)
		got, err := Canonical(in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if string(got) != c.want {
			t.Errorf("Canonical(%s)\n got %s\nwant %s", c.in, got, c.want)
		}
		if string(in) != c.in {
			t.Errorf("%s was changed to %s", c.in, in)
		}
	}
}

func TestCanonicalRefuses(t *testing.T) {
	for _, in := range []string{``, `{"a":1,"a":1}`, `9007199254740993`, `"\ud800"`, `1e999`, `{`} {
		if got, err := Canonical(jsontext.Value(in)); err == nil {
			t.Errorf("Canonical(%s) = %s", in, got)
		}
	}
}

func TestCanonicalIsCheap(t *testing.T) {
	v := jsontext.Value(`{"a":[1,2,{"b":"text \" with \\ escapes","c":null}],"d":-5,"é":true}`)
	got, err := Canonical(v)
	if err != nil || &got[0] != &v[0] {
		t.Errorf("a canonical value was copied (%v)", err)
	}
}

// FuzzCanonical: the canonical form is a fixed point and equals the result of jsontext. A text that Scan reports as
// canonical is canonical.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{
		`{"b":1,"a":[1e2,-0,"\u0041"]}`, `{"😀":1,"":2,"a":{"b":{}}}`, ` 1.50 `, `"\u001f\u007f"`, `{"a":1,"b":2}`,
		`[1e21,1e-7,123456789012345]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Canonical(b)
		if (err == nil) != (Check(b) == nil) {
			t.Fatalf("Canonical says %v, Check %v", err, Check(b))
		}
		if err != nil {
			return
		}
		want := jsontext.Value(bytes.Clone(b))
		if err := want.Canonicalize(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("got %s, jsontext says %s", got, want)
		}
		again, err := Canonical(got)
		if err != nil || !bytes.Equal(again, got) {
			t.Fatalf("not a fixed point: %s, %s, %v", got, again, err)
		}
	})
}
