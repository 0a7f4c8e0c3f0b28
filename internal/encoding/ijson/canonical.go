package ijson

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Canonical returns v in the one form of RFC 8785 (JCS), so that equal values have equal bytes.
// A v that already has this form is returned as it is; otherwise the result is new. A v that is
// no I-JSON has no canonical form and is an error.
func Canonical(v jsontext.Value) (jsontext.Value, error) {
	text := Scan(v, "")
	if found := text.Violations; found != nil {
		return nil, fmt.Errorf("no canonical form: %s at %q: %s", found[0].Rule, found[0].Pointer, found[0].Message)
	}
	if text.Canonical {
		return v, nil
	}
	c := v.Clone()
	if err := c.Canonicalize(); err != nil {
		return nil, fmt.Errorf("canonical form: %w", err)
	}
	return c, nil
}
