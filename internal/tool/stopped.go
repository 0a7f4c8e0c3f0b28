package tool

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// StoppedError means that the run was ended because its context ended. Cause is the cause of that context. Effect is
// the effect that the tool stated before it ended, or "".
type StoppedError struct {
	Cause    error
	Effect   envelope.Effect
	Answered bool // it had written its answer, and had to be ended by a signal nevertheless
	Killed   bool // it was killed, because SIGTERM had not ended it
	Stderr   string
}

func (e *StoppedError) Error() string { return "tool stopped: " + e.Cause.Error() }
func (e *StoppedError) Unwrap() error { return e.Cause }

// Stopped returns the error of a run that was ended because ctx ended. said is the effect that the tool stated, or "".
func Stopped(ctx context.Context, said envelope.Effect, stderr string) *StoppedError {
	cause := context.Cause(ctx)
	if ctx.Err() != nil && !errors.Is(cause, ctx.Err()) {
		cause = fmt.Errorf("%w (%w)", cause, ctx.Err())
	}
	return &StoppedError{Cause: cause, Effect: said, Stderr: stderr}
}

// Ended says how a run that took too long was ended, and what its author can do about it. The fix of an error with a
// known effect is [envelope.FixApplied], so the advice is here.
func (e *StoppedError) Ended() string {
	how := "was ended then"
	if e.Killed {
		how = "was killed then, because SIGTERM did not end it"
	}
	if e.Answered {
		how += ": a run ends when its program exits, so end its threads and close what keeps it running (in Python, " +
			"os._exit ends it in any case)"
	}
	return how
}

func (e *StoppedError) classify(m *Manifest) *envelope.Error {
	if !errors.Is(e.Cause, context.DeadlineExceeded) {
		return m.failure(envelope.CodeCancelled, envelope.CodeCancelledUnknown, e.Effect, "", e.Stderr)
	}
	fault := m.failure(envelope.CodeTimeout, envelope.CodeTimeoutUnknown, e.Effect, e.message(m), e.Stderr)
	if !e.Answered {
		return fault
	}
	fix := "report it to the tool's owner: a longer time does not help"
	if fault.Code == envelope.CodeTimeoutUnknown {
		fix = "find out whether the effect took place before calling again with a new key; " + fix
	}
	return fault.WithFix(fix)
}

// message returns the message of a run that took too long, or "" for that of its code, which names no known effect.
func (e *StoppedError) message(m *Manifest) string {
	const answered = "the tool wrote its answer and did not exit by the deadline: the answer is not kept"
	took := m.implied(e.Effect) == envelope.EffectApplied
	switch {
	case e.Answered && took:
		return answered + ", except that its effect took place"
	case e.Answered:
		return answered
	case took:
		return "the call did not end before its deadline, and the tool said that its effect took place"
	}
	return ""
}
