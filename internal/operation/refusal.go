package operation

import "github.com/seed-018f16cc/toolbus/envelope"

// Refusal is a Go error for an operation that a dispatcher refused.
type Refusal struct{ Reason *envelope.Error }

// Error implements error.
func (r *Refusal) Error() string { return InFull(r.Reason) }

// InFull returns the message of e, its cause, and each violation with its pointer.
func InFull(e *envelope.Error) string {
	text := e.String()
	if e.Cause != "" {
		text += ": " + e.Cause
	}
	for _, v := range e.Details.Violations {
		text += "; " + v.Pointer + " " + v.Message
	}
	return text
}
