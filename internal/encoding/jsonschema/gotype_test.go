package jsonschema

import (
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/google/go-cmp/cmp"
)

type color string

type thing struct {
	ID string `json:"id" jsonschema:"of the thing"`
}

type embedding struct {
	thing
	Name string `json:"name,omitzero"`
}

type tagged struct {
	Color   color  `json:"color" jsonschema:"one of red, green and blue"`
	Opt     int    `json:"opt,omitempty"`
	Skipped func() `json:"-"`
	hidden  int
}

// The schema of a type accepts its encoding, and uses keywords that this package supports.
func TestSchemaOf(t *testing.T) {
	const (
		whole       = `{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991}`
		end         = `"required":["id"],"additionalProperties":false}`
		thingSchema = `"properties":{"id":{"type":"string","description":"of the thing"}},` + end
	)
	for want, value := range map[string]any{
		`{"type":"string"}`: "x",
		whole:               7,
		`{"type":"integer","minimum":0,"maximum":255}`:                     uint8(255),
		`{"type":"number"}`:                                                0.5,
		`{"type":"boolean"}`:                                               true,
		`{"type":["null","boolean"]}`:                                      new(bool),
		`{"type":"string","format":"date-time"}`:                           time.Unix(1, 5).UTC(),
		`{"type":["null","string"],"format":"date-time"}`:                  (*time.Time)(nil),
		`{"type":["null","array"],"items":{"type":"string"}}`:              []string{"a"},
		`{"type":"array","items":` + whole + `,"minItems":2,"maxItems":2}`: [2]int{1, 2},
		`{"type":"string","contentEncoding":"base64"}`:                     []byte{1, 2, 3},
		`{"type":"object","additionalProperties":{"type":["null","array"],"items":{"type":"number"}}}`: map[string][]float64{
			"a": {1},
		},
		`{"type":"object","additionalProperties":false}`: struct{}{},
		`{"type":"object",` + thingSchema:                thing{"1"},
		`{"type":["null","object"],` + thingSchema:       &thing{"1"},
		`{"type":"object","properties":{"id":{"type":"string","description":"of the thing"},` +
			`"name":{"type":"string"}},` + end: embedding{thing{"1"}, ""},
		`{"type":"object","properties":{"color":{"type":"string","description":"one of red, green and blue"},` +
			`"opt":` + whole + `},"required":["color"],"additionalProperties":false}`: tagged{Color: "red", hidden: 1},
		`{"type":["null","boolean","number","string","array","object"]}`: jsontext.Value(`{"any":[1]}`),
		`{"type":"object","properties":{"at":{"type":"string"},"took":` + whole + `},` +
			`"required":["at","took"],"additionalProperties":false}`: struct {
			At   netip.Addr    `json:"at"`
			Took time.Duration `json:"took"`
		}{netip.IPv6Loopback(), time.Second},
	} {
		of := reflect.TypeOf(value)
		got, err := FromType(of)
		if err != nil {
			t.Errorf("%s: %v", of, err)
			continue
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s: %s", of, diff)
		}
		compiled, err := Compile("test", got, nil)
		if err != nil {
			t.Errorf("%s: %v", of, err)
			continue
		}
		for _, v := range []any{value, reflect.Zero(of).Interface()} {
			encoded, err := json.Marshal(v, jsonv1.FormatDurationAsNano(true), json.Deterministic(true))
			if bad := compiled.Validate(encoded); err != nil || len(bad) > 0 {
				t.Errorf("%s: its schema refuses %s: %v, %v", of, encoded, bad, err)
			}
			back := reflect.New(of)
			if err := json.Unmarshal(encoded, back.Interface(), jsonv1.FormatDurationAsNano(true)); err != nil {
				t.Errorf("%s: %s cannot be decoded: %v", of, encoded, err)
			}
		}
	}
}

// Types with encoding methods inside other types, where the generator would use their kind.
func TestSchemaOfMarshalers(t *testing.T) {
	type deep struct {
		Nets  map[string][]*netip.Prefix `json:"nets"`
		Big   *big.Int                   `json:"big"`
		Bytes [][4]byte                  `json:"bytes"`
		Any   any                        `json:"any"`
	}
	got, err := FromType(reflect.TypeFor[[]deep]())
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := Compile("test", got, nil)
	if err != nil {
		t.Fatal(err)
	}
	net := netip.MustParsePrefix("10.0.0.0/8")
	nets := map[string][]*netip.Prefix{"a": {&net, nil}}
	full, err := json.Marshal([]deep{{nets, big.NewInt(5), [][4]byte{{1}}, []int{1}}, {}},
		jsonv1.FormatDurationAsNano(true), json.Deterministic(true))
	if bad := compiled.Validate(full); err != nil || len(bad) > 0 {
		t.Errorf("%s refuses %s: %v, %v", got, full, bad, err)
	}
}

type endless struct {
	Next *endless `json:"next"`
}

func TestSchemaOfWhatHasNone(t *testing.T) {
	for _, of := range []reflect.Type{
		reflect.TypeFor[chan int](), reflect.TypeFor[func()](), reflect.TypeFor[map[int]string](),
		reflect.TypeFor[[]complex128](),
		reflect.TypeFor[endless](), reflect.TypeFor[struct {
			A int `jsonschema:"minimum=3"`
		}](),
	} {
		if got, err := FromType(of); err == nil {
			t.Errorf("%s has the schema %s", of, got)
		}
	}
}
