package call

import (
	"cmp"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// maxStderr is how many bytes of the standard error of a tool a sentence has.
const maxStderr = 400

// says returns why an attempt ended: the message and the cause of its error, as far as they are its own, otherwise what
// is likely by its code. The beginning of what the tool wrote to standard error follows.
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
	if stderr := strings.Fields(e.Details.Stderr); len(stderr) > 0 {
		text += "; standard error begins: " + ijson.Clip(strings.Join(stderr, " "), maxStderr)
	}
	return text
}
