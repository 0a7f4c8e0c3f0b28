package operation

import (
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Refusal is a Go error for an operation that a dispatcher refused.
type Refusal struct {
	Reason *envelope.Error
	Dialed bool // the refusal ended an attempt to connect: its text has the fix, as other errors of that have
}

// Error implements error.
func (r *Refusal) Error() string {
	text := InFull(r.Reason, func(pointer, message string) string { return pointer + " " + message })
	if r.Dialed {
		text += "\n" + r.Reason.Fix
	}
	return text
}

// InFull returns the message of e, its cause, the text that say returns for each violation, and why the tool's program
// says that it failed.
func InFull(e *envelope.Error, say func(pointer, message string) string) string {
	text := e.String()
	if e.Cause != "" {
		text += ": " + e.Cause
	}
	for _, v := range e.Details.Violations {
		text += "; " + say(v.Pointer, v.Message)
	}
	if line := lastLine(e.Details.Stderr); !strings.Contains(text, strings.TrimPrefix(line, "error: ")) {
		text += "; stderr of the tool: " + line
	}
	return text
}

// maxLine is how much of a line InFull returns, in bytes.
const maxLine = 200

// lastLine returns the line of a program's standard error that has the reason of its failure: the panic of a Go
// program, which a trace follows, and otherwise the last line.
func lastLine(stderr string) (last string) {
	for line := range strings.Lines(stderr) {
		if line = strings.TrimSpace(line); line != "" {
			last = strings.ToValidUTF8(line[:min(len(line), maxLine)], "")
		}
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			break
		}
	}
	return last
}
