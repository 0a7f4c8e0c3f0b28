package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// ErrNoLookup is what Lookup returns for a tool whose manifest does not declare lookup.
var ErrNoLookup = errors.New("the tool has no lookup")

// ErrAbandoned is the error of Execute and Lookup if the watchdog abandoned the run before they returned. The owner of
// the run has continued in another goroutine, so the caller of Execute does nothing more.
var ErrAbandoned = errors.New("the run was abandoned")

// Error is what a tool says of its own failure. Its Code is a name of the tool's own, one that
// the manifest declares under errors; Effect is "" when the tool does not know.
type Error struct {
	Code       string
	Message    string
	Details    jsontext.Value // an object, or nothing
	Effect     envelope.Effect
	RetryAfter time.Duration // callers are told at most envelope.MaxRetryAfter
	// Result is all that the tool said instead of an output: an object of at most envelope.MaxToolResult bytes, or
	// nothing.
	Result jsontext.Value
}

// StartError means that the tool could not be started: nothing of it ran.
type StartError struct{ Err error }

// CrashError means that the tool ended badly: its exit status, signal or panic.
type CrashError struct {
	How      string // for example "exit status 3", "signal: killed", "panic: …"
	Answered bool   // it had written its answer, which does not count without a good end
	Stderr   string
}

// ProtocolError means that what the tool wrote is not the tool protocol.
type ProtocolError struct {
	Reason string
	Stderr string
}

// LimitError means that the tool's output and chunks together exceed its limit.
type LimitError struct {
	Limit  int64 // bytes
	Stderr string
}

// SinkError means that the sink of the run's chunks failed, so that the run was ended.
type SinkError struct{ Err error }

// StoppedError means that the run was ended because its context did. Cause is that context's
// cause; Effect is what the tool still said on its way out, or "".
type StoppedError struct {
	Cause  error
	Effect envelope.Effect
	Stderr string
}

// SurvivorError means that processes of the run did not go away although they were killed; the
// kernel holds them. They are killed as soon as it lets go.
type SurvivorError struct{ Waited time.Duration }

func (e *Error) Error() string         { return e.Code + ": " + e.Message }
func (e *StartError) Error() string    { return "start tool: " + e.Err.Error() }
func (e *CrashError) Error() string    { return "tool crashed: " + e.How }
func (e *ProtocolError) Error() string { return "tool protocol: " + e.Reason }
func (e *LimitError) Error() string {
	return fmt.Sprintf("tool output is larger than %d bytes", e.Limit)
}
func (e *SinkError) Error() string    { return "chunk sink: " + e.Err.Error() }
func (e *StoppedError) Error() string { return "tool stopped: " + e.Cause.Error() }
func (e *SurvivorError) Error() string {
	return fmt.Sprintf("processes of the tool still there %v after they were killed", e.Waited)
}

func (e *StartError) Unwrap() error   { return e.Err }
func (e *SinkError) Unwrap() error    { return e.Err }
func (e *StoppedError) Unwrap() error { return e.Cause }

// Check says what is wrong with e by the tool contract, or nil.
func (e *Error) Check() error {
	switch {
	case !errorPattern.MatchString(e.Code):
		return fmt.Errorf("the error code %.80q is no name of lower-case letters, digits and _", e.Code)
	case e.Effect != "" && e.Effect != envelope.EffectNone && e.Effect != envelope.EffectApplied &&
		e.Effect != envelope.EffectUnknown:
		return fmt.Errorf("the effect %.40q is none of none, applied and unknown", e.Effect)
	case e.RetryAfter < 0:
		return errors.New("retry_after_ms is negative")
	case len(e.Details) > 0 && e.Details.Kind() != '{':
		return errors.New("the error's details are no object")
	}
	return nil
}

// Stopped returns the error of a run that was ended because ctx was.
func Stopped(ctx context.Context, said envelope.Effect, stderr string) *StoppedError {
	cause := context.Cause(ctx)
	if ctx.Err() != nil && !errors.Is(cause, ctx.Err()) {
		cause = fmt.Errorf("%w (%w)", cause, ctx.Err())
	}
	return &StoppedError{Cause: cause, Effect: said, Stderr: stderr}
}

// classified is an error that knows its place in the taxonomy.
type classified interface {
	error
	classify(m *Manifest) *envelope.Error
}

// Classify maps the error of a run to an error code. It is total, and [ErrorClassifier]s use it for the errors that are
// not their own.
//
// The effect is what the tool said. Where it said nothing, the effect of a pure tool is none
// (it has none) and of any other unknown. A code that lets the same call run again is given only
// where that is safe: a side-effectful tool whose effect is not known to be none ends in a
// terminal code instead.
func Classify(m *Manifest, err error) *envelope.Error {
	var known classified
	if errors.As(err, &known) {
		return known.classify(m)
	}
	if err == nil {
		err = errors.New("no error was given")
	}
	return m.fault("", "").WithCause(err.Error())
}

func (e *Error) classify(m *Manifest) *envelope.Error {
	spec, declared := m.Errors[e.Code]
	if !declared {
		spec = ErrorSpec{Class: envelope.ClassTool, Fix: "declare the error " + e.Code + " in the tool's manifest"}
	}
	message := cmp.Or(e.Message, spec.Message)
	effect := m.effect(e.Effect)
	code := envelope.ToolErrorCode(spec.Class, e.Code)
	if code.Retryable() && !m.safeAgain(effect) {
		code = envelope.CodeToolUnknownState
		spec.Fix = "" // it tells how to call again
	}
	out := envelope.NewError(code, message).WithToolCode(e.Code).WithEffect(effect).WithFix(spec.Fix).
		WithHTTPStatus(spec.HTTPStatus).WithDetails(e.Details).WithToolResult(e.Result)
	if e.RetryAfter > 0 {
		out.WithRetryAfter(e.RetryAfter)
	}
	return out
}

func (e *StartError) classify(*Manifest) *envelope.Error {
	return envelope.NewError(envelope.CodeUnavailable, "the tool could not be started").
		WithFix("check the tool's endpoint on the executor's host, as the cause says").
		WithCause(e.Err.Error()).WithEffect(envelope.EffectNone)
}

func (e *CrashError) classify(m *Manifest) *envelope.Error {
	message := "the tool ended without an answer"
	if e.Answered {
		message = "the tool wrote its answer and then failed"
	}
	return m.fault(message, e.Stderr).WithCause(e.How)
}

func (e *ProtocolError) classify(m *Manifest) *envelope.Error {
	return m.failure(envelope.CodeToolProtocol, envelope.CodeToolProtocol, "", e.Reason, e.Stderr)
}

func (e *LimitError) classify(m *Manifest) *envelope.Error {
	says := fmt.Sprintf("output and chunks are larger than %d bytes", e.Limit)
	return m.failure(envelope.CodeOutputLimit, envelope.CodeOutputLimit, "", says, e.Stderr)
}

func (e *SinkError) classify(m *Manifest) *envelope.Error {
	const message = "the run was ended because its chunks could not be delivered"
	return m.failure(envelope.CodeUpstream, envelope.CodeToolUnknownState, "", message, "").WithCause(e.Err.Error())
}

func (e *StoppedError) classify(m *Manifest) *envelope.Error {
	if errors.Is(e.Cause, context.DeadlineExceeded) {
		return m.failure(envelope.CodeTimeout, envelope.CodeTimeoutUnknown, e.Effect, "", e.Stderr)
	}
	return m.failure(envelope.CodeCancelled, envelope.CodeCancelledUnknown, e.Effect, "", e.Stderr)
}

func (e *SurvivorError) classify(m *Manifest) *envelope.Error {
	return m.fault("the tool could not be ended", "").WithCause(e.Error())
}

// fault is a tool that failed without saying how.
func (m *Manifest) fault(message, stderr string) *envelope.Error {
	return m.failure(envelope.CodeToolFault, envelope.CodeToolUnknownState, "", message, stderr)
}

// failure is a run that failed: with the code again where the call may run again under the same key, else with unsafe.
func (m *Manifest) failure(
	again, unsafe envelope.Code, said envelope.Effect, message, stderr string,
) *envelope.Error {
	effect := m.effect(said)
	if !m.safeAgain(effect) {
		again = unsafe
	}
	return envelope.NewError(again, message).WithEffect(effect).WithStderr(stderr)
}

// effect returns what is known of the effect of a run that failed.
func (m *Manifest) effect(said envelope.Effect) envelope.Effect {
	switch {
	case said == envelope.EffectNone || said == envelope.EffectApplied:
		return said
	case said == "" && m.Class == call.Pure:
		return envelope.EffectNone
	}
	return envelope.EffectUnknown
}

// safeAgain says whether a call with this effect may run again under the same key.
func (m *Manifest) safeAgain(effect envelope.Effect) bool {
	return m.Class != call.SideEffectful || effect == envelope.EffectNone
}
