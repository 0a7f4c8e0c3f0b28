package envelope

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

func TestMsgpackRefuses(t *testing.T) {
	pack := func(v any) []byte {
		b, err := msgpack.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	deep := append(bytes.Repeat([]byte{0x91}, ijson.MaxDepth+1), 0xc0)
	for _, c := range []struct {
		name string
		body []byte
		want string
	}{
		{"nothing", nil, "EOF"},
		{"bin", pack([]byte("x")), "bin and ext"},
		{"ext", []byte{0xd4, 1, 2}, "bin and ext"},
		{"time", []byte{0xd6, 0xff, 0, 0, 0, 0}, "bin and ext"},
		{"number as name", []byte{0x81, 0x01, 0x01}, "no string"},
		{"bin as name", []byte{0x81, 0xc4, 1, 'a', 0x01}, "no string"},
		{"nil as name", []byte{0x81, 0xc0, 0x01}, "no string"},
		{"NaN", []byte{0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 1}, "NaN"},
		{"infinity", []byte{0xca, 0x7f, 0x80, 0, 0}, "NaN"},
		{"invalid UTF-8", []byte{0xa1, 0xff}, "UTF-8"},
		{"cut string", []byte{0xdb, 0xff, 0xff, 0xff, 0xff, 'x'}, "EOF"},
		{"cut array", []byte{0xdd, 0xff, 0xff, 0xff, 0xff}, "EOF"},
		{"cut map", []byte{0xdf, 0xff, 0xff, 0xff, 0xff, 0xa1, 'a'}, "EOF"},
		{"unused code", []byte{0xc1}, "c1"},
		{"two values", []byte{1, 2}, "more than one"},
		{"deep", deep, "nested"},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := msgpackToJSON(c.body)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %s, %v, want %s", out, err, c.want)
			}
			if _, e := DecodeRequest(ContentMsgpack, c.body); e == nil || e.Code != CodeMalformed && e.Code != CodeLimit {
				t.Errorf("DecodeRequest: %v", e)
			}
		})
	}
}

// A request with an integer beyond 2^53-1 is refused in the same words in both encodings, for the same call.
func TestMsgpackIntegers(t *testing.T) {
	var q map[string]any
	sample, err := EncodeRequest(ContentJSON, fullRequest())
	if err == nil {
		err = json.Unmarshal(sample, &q)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range map[string]any{
		"int64": int64(-1 << 53), "uint64": uint64(1 << 53), "largest": uint64(math.MaxUint64),
		"least": int64(math.MinInt64),
	} {
		q["input"] = map[string]any{"list": []any{1, n}}
		q["provenance"] = map[string]any{"at": n}
		asJSON, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		packed, err := msgpack.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		got, e := DecodeRequest(ContentMsgpack, packed)
		want, wanted := DecodeRequest(ContentJSON, asJSON)
		if e == nil || e.Code != CodeSchema || len(e.Details.Violations) != 2 || got == nil || got.CallID != sampleCall {
			t.Fatalf("%s: %+v, of %+v", name, e, got)
		}
		at := func(e *Error) (all []string) {
			for _, v := range e.Details.Violations {
				all = append(all, v.Pointer+" "+v.Rule)
			}
			slices.Sort(all)
			return all
		}
		if !slices.Equal(at(e), at(wanted)) || want.CallID != got.CallID {
			t.Errorf("%s: %q, of JSON %q", name, at(e), at(wanted))
		}
	}
}

func TestMsgpackDuplicateNames(t *testing.T) {
	body := []byte{0x82, 0xa1, 'a', 0x01, 0xa1, 'a', 0x02}
	if _, e := DecodeRequest(ContentMsgpack, body); e == nil || e.Code != CodeMalformed ||
		e.Details.Violations[0].Rule != ijson.RuleDuplicate {
		t.Errorf("got %v", e)
	}
}

// TestMsgpackIsBounded: a short body cannot unfold into a document above the limit unnoticed.
func TestMsgpackIsBounded(t *testing.T) {
	control := append([]byte{0xdb, 0, 0xc0, 0, 0}, make([]byte, 12<<20)...) // every byte becomes six
	if _, e := DecodeRequest(ContentMsgpack, control); e == nil || e.Code != CodeLimit {
		t.Errorf("got %v", e)
	}
}

func TestMsgpackNumbers(t *testing.T) {
	for in, want := range map[string]string{
		"1.0": "1", "-0.0": "0", "1e3": "1000", "2.5": "2.5", "1e300": "1e+300", "1e-7": "1e-7",
		"9007199254740991": "9007199254740991", "-9007199254740991": "-9007199254740991", "0": "0", "127": "127",
		"-33": "-33",
	} {
		packed, err := jsonToMsgpack(jsontext.Value(in))
		if err != nil {
			t.Fatal(err)
		}
		got, err := msgpackToJSON(packed)
		if err != nil || string(got) != want {
			t.Errorf("%s came back as %s, %v", in, got, err)
		}
	}
	for _, in := range []string{"9007199254740993", "1e999", `{"a":`, `[1`, `{`, ``} {
		if got, err := jsonToMsgpack(jsontext.Value(in)); err == nil && len(got) > 0 {
			t.Errorf("%s was packed as %x", in, got)
		}
	}
}

// TestMsgpackIsomorphic converts random values both ways.
func TestMsgpackIsomorphic(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		v := jsontext.Value(randomJSON(rng, 4))
		want, err := ijson.Canonical(v)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		packed, err := jsonToMsgpack(v)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		back, err := msgpackToJSON(packed)
		if err != nil {
			t.Fatalf("%s: %v", v, err)
		}
		got, err := ijson.Canonical(back)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%s came back as %s, %v", want, got, err)
		}
		var other any // what a plain msgpack library makes of it
		if err := msgpack.Unmarshal(packed, &other); err != nil {
			t.Fatalf("%s: %v", v, err)
		}
	}
}

func randomJSON(rng *rand.Rand, depth int) string {
	switch n := rng.IntN(8); {
	case n < 2 && depth > 0:
		return "[" + strings.Join(randomItems(rng, depth, func(int) string { return "" }), ",") + "]"
	case n < 4 && depth > 0:
		return "{" + strings.Join(randomItems(rng, depth, func(i int) string { return fmt.Sprintf(`"k%d\u00e9":`, i) }),
			",") + "}"
	case n == 4:
		return strconv.FormatFloat(rng.NormFloat64(), 'g', -1, 64)
	case n == 5:
		return strconv.FormatInt(rng.Int64N(1<<53)>>rng.IntN(53), 10)
	case n == 6:
		return strconv.Quote(strings.Repeat("ä😀x", rng.IntN(100)))
	}
	return []string{"true", "false", "null", `""`, "0", "-1"}[rng.IntN(6)]
}

func randomItems(rng *rand.Rand, depth int, prefix func(int) string) []string {
	items := make([]string, rng.IntN(7))
	for i := range items {
		items[i] = prefix(i) + randomJSON(rng, depth-1)
	}
	return items
}
