package tool

import (
	"fmt"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// Limits of warnings about replaced values.
const (
	maxSaid = 20  // warnings
	maxWas  = 160 // bytes of a value or pointer in a warning
)

// Replaced returns warnings about values that were replaced below a pointer of the result. others is the number of
// warnings that the result has already: Replaced keeps the sum within envelope.MaxWarnings.
func Replaced(of ijson.Repairs, others int, below string) (warnings []string) {
	more := of.More
	for _, r := range of.List {
		pointer, is := strings.CutPrefix(r.Pointer, below)
		switch {
		case !is:
			continue
		case len(warnings) == maxSaid || others+len(warnings)+1 >= envelope.MaxWarnings:
			more++
			continue
		}
		what := "the value at"
		if r.Name {
			what = "the name at"
		}
		if r.Rule == ijson.RuleDuplicate {
			what = "an earlier member of the name at"
		}
		was := ijson.Clip(strings.ToValidUTF8(string(r.Was), "\ufffd"), maxWas)
		warnings = append(warnings,
			fmt.Sprintf("%s %q was replaced: the tool sent %s", what, ijson.Clip(pointer, maxWas), was))
	}
	if more > 0 {
		warnings = append(warnings, fmt.Sprintf("%d more values were replaced", more))
	}
	return warnings
}
