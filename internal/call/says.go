package call

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// How many bytes of the standard error of a tool, and how many violations, a sentence has.
const (
	maxStderr     = 400
	maxViolations = 5
)

// says returns why an attempt ended: the message and the cause of its error, as far as they are its own, otherwise what
// is likely by its code. The first violations, and the beginning of what the tool wrote to standard error, follow.
func says(e *envelope.Error, likely string) string {
	if e == nil {
		return likely
	}
	text := cmp.Or(e.Cause, likely)
	if e.Message != envelope.Lookup(e.Code).Message {
		if text = e.Message; e.Cause != "" {
			text += " (" + e.Cause + ")"
		}
	}
	all := e.Details.Violations
	for _, v := range all[:min(len(all), maxViolations)] {
		text += fmt.Sprintf("; %s %s", cmp.Or(v.Pointer, "it"), v.Message)
	}
	if len(all) > maxViolations {
		text += "; and more, which `toolbus result` lists"
	}
	stderr := strings.Join(strings.Fields(e.Details.Stderr), " ")
	if stderr != "" && !strings.HasSuffix(e.Cause, ": "+stderr) { // else it is one line, which the cause has
		text += "; standard error begins: " + ijson.Clip(stderr, maxStderr)
	}
	return text
}
