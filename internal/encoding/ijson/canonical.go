package ijson

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Canonical returns v in canonical form (RFC 8785, JCS), in which equal values have equal bytes. If v is in this form
// already, it returns v itself, and otherwise new memory. If v is not I-JSON, it returns an error.
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
