package jsonschema

import (
	"slices"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// A member that differs from a declared one by case alone is found, wherever its object is, and whichever alternative
// declares the other one. A schema accepts no such value at once.
func TestNamesThatDifferByCase(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		schema, value string
		at            []string
	}{
		{`{"properties":{"amount":{"maximum":10}}}`, `{"Amount":11,"amount":1,"AMOUNT":12,"other":1}`,
			[]string{"/AMOUNT", "/Amount"}},
		{`{"properties":{"skip_checks":{}}}`, `{"\u017fkip_checks":true,"s\u212aip_checks":true,"skip_check\u0073":1}`,
			[]string{"/\u017fkip_checks", "/s\u212aip_checks"}},
		{`{"properties":{"größe":{}},"required":["größe"]}`, `{"größe":1,"GRÖßE":2}`, []string{"/GRÖßE"}},
		{`{"properties":{"a":{},"A":{}}}`, `{"a":1,"A":2}`, nil},
		{`{"properties":{"a":{}},"additionalProperties":{"type":"number"}}`, `{"A":2}`, []string{"/A"}},
		{`{"properties":{"a":{"items":{"properties":{"b":{}}}}}}`, `{"a":[{"b":1},{"B":1}]}`, []string{"/a/1/B"}},
		{`{"additionalProperties":{"properties":{"b":{}}}}`, `{"x":{"B":1},"X":{"b":1}}`, []string{"/x/B"}},
		{`{"$ref":"#/$defs/n","$defs":{"n":{"properties":{"n":{"$ref":"#/$defs/n"}}}}}`, `{"n":{"n":{"N":1}}}`,
			[]string{"/n/n/N"}},
		{`{"anyOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}]}`, `{"a":1,"B":1}`,
			nil},
		{`{"anyOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`, `{"a":1,"B":1}`, []string{"/B"}},
		{`{"allOf":[{"properties":{"a":{}}},{"properties":{"A":{}}}]}`, `{"a":1,"A":1}`, nil},
		{`{"not":{"properties":{"a":{"const":1}},"required":["a"]}}`, `{"A":1}`, nil},
	} {
		s := compile(t, c.schema)
		if bad := s.Validate(jsontext.Value(c.value)); len(bad) > 0 {
			t.Fatalf("%s in %s: %v", c.value, c.schema, bad)
		}
		if c.at != nil && s.Accepts(jsontext.Value(c.value)) {
			t.Errorf("%s is accepted by %s", c.value, c.schema)
		}
		found, err := s.Formatted(t.Context(), jsontext.Value(c.value))
		if err != nil {
			t.Fatal(err)
		}
		var at []string
		for _, f := range found {
			if f.Format != FormatName {
				t.Errorf("%+v", f)
			}
			at = append(at, f.Pointer)
		}
		slices.Sort(at)
		slices.Sort(c.at)
		if !slices.Equal(at, c.at) {
			t.Errorf("%s in %s: at %q, want %q", c.value, c.schema, at, c.at)
		}
	}
}

// An undeclared member costs the quick acceptance no allocation.
func TestAcceptedNamesAreFree(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{"a":{"type":"string"}}}`)
	v := jsontext.Value(`{"a":"x","another_member":[1,2,3]}`)
	if !s.Accepts(v) {
		t.Fatal("not accepted")
	}
	if n := testing.AllocsPerRun(10, func() { s.Accepts(v) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
