package jsonschema

import (
	"cmp"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// compareViolations orders violations by place and rule.
func compareViolations(a, b Violation) int {
	return cmp.Or(cmp.Compare(a.Pointer, b.Pointer), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
}

// Below prefixes the pointers of violations with the position of the value in a document. It changes found.
func Below(pointer string, found []Violation) []Violation {
	for i := range found {
		found[i].Pointer = pointer + found[i].Pointer
	}
	return found
}

// list returns the beginning of a list of values of a schema, which is all that a violation keeps.
func list(values []any) string {
	var b []byte
	for i := 0; i < len(values) && len(b) <= ijson.MaxViolationText; i++ {
		if i > 0 {
			b = append(b, ", "...)
		}
		// A value of a schema was decoded from JSON, so it can be encoded.
		text, _ := json.Marshal(values[i], json.Deterministic(true))
		b = append(b, text...)
	}
	return string(b)
}
