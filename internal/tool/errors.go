package tool

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// ErrNoLookup is the error of Lookup for a tool whose manifest does not declare lookup.
var ErrNoLookup = errors.New("the tool has no lookup")

// ErrAbandoned is the error of Execute and Lookup if the watchdog abandoned the run before they returned. The owner of
// the run has continued in another goroutine, so the caller of Execute does nothing more.
var ErrAbandoned = errors.New("the run was abandoned")

// Error is a failure that a tool reports itself. Code is one of the names that the manifest declares under errors.
// Effect is "" if the tool does not state it.
type Error struct {
	Code       string
	Message    string
	Details    jsontext.Value // a JSON object, or nil
	Effect     envelope.Effect
	RetryAfter time.Duration // callers get at most envelope.MaxRetryAfter
	// Result, if not nil, is the whole answer of a tool that failed: an object of at most envelope.MaxToolResult bytes.
	Result jsontext.Value
}

// StartError means that the tool was not started: none of its code ran.
type StartError struct{ Err error }

// CrashError means that the tool crashed: it ended with a bad exit status, a signal or a panic, or its function
// returned an error that the manifest does not declare.
type CrashError struct {
	How      string // for example "exit status 3", "signal: killed", "panic: …"
	Message  string // what the tool gave as the reason, or ""
	Answered bool   // it had written its answer, which counts only if the tool ends well
	Last     string // last line of the standard error of a program, which mostly has the reason; or ""
	Stderr   string
}

// ProtocolError means that the output of the tool breaks the tool protocol. Effect is the effect that the tool stated
// nevertheless, or "". Fix says what the tool's author can do, or is "".
type ProtocolError struct {
	Reason string
	Fix    string
	Effect envelope.Effect
	Stderr string
}

// LimitError means that the tool's output, chunks, progress and log together exceed its limit. Effect is the effect
// that the tool stated, or "".
type LimitError struct {
	Limit  int64 // bytes
	Effect envelope.Effect
	Stderr string
}

// SinkError means that the adapter ended the run because its sink returned an error.
type SinkError struct{ Err error }

// SurvivorError means that processes of the run still existed after they were killed, because the kernel had not ended
// them. They end as soon as the kernel can.
type SurvivorError struct{ Waited time.Duration }

func (e *Error) Error() string      { return e.Code + ": " + e.Message }
func (e *StartError) Error() string { return "start tool: " + e.Err.Error() }
func (e *CrashError) Error() string {
	if e.Message == "" {
		return "tool crashed: " + e.How
	}
	return "tool crashed: " + e.How + ": " + e.Message
}
func (e *ProtocolError) Error() string { return "tool protocol: " + e.Reason }
func (e *LimitError) Error() string {
	return fmt.Sprintf("tool output is larger than %d bytes", e.Limit)
}
func (e *SinkError) Error() string { return "chunk sink: " + e.Err.Error() }
func (e *SurvivorError) Error() string {
	return fmt.Sprintf("processes of the tool still there %v after they were killed", e.Waited)
}

func (e *StartError) Unwrap() error { return e.Err }
func (e *SinkError) Unwrap() error  { return e.Err }

// Check returns an error if e breaks the tool contract.
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

// classified is an error that maps itself to the taxonomy.
type classified interface {
	error
	classify(m *Manifest) *envelope.Error
}

// Classify maps the error of a run to an error code. It maps every error. Each [ErrorClassifier] uses it for errors
// that are not of its own types.
//
// The effect is the one that the tool stated. If the tool stated none, the effect of a pure tool is none, and of any
// other tool unknown. Classify returns a retryable code only if the call may safely run again. For a side-effectful
// tool whose effect is not known to be none, it returns a terminal code instead.
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

// Undecoded is the code of the [Error] of a Go function that does not take an input that the schema allows.
const Undecoded = "input_undecoded"

// notRun maps the codes of errors of tools that have run no function for the call. Package protocol has them, too.
var notRun = map[string]envelope.Code{Undecoded: envelope.CodeSchema, "call_unserved": envelope.CodeDigest}

const fixNotRun = "tell the tool's owner that the manifest allows a call that the program does not take: one of them " +
	"is older, and `PROGRAM --manifest DIR` writes the manifest of a Go program with ToolMain again; call without what " +
	"the message names if you can"

func (e *Error) classify(m *Manifest) *envelope.Error {
	spec, declared := m.Errors[e.Code]
	if code, ours := notRun[e.Code]; ours && !declared {
		return envelope.NewError(code, e.Message).WithFix(fixNotRun).WithEffect(envelope.EffectNone)
	}
	if !declared {
		spec = ErrorSpec{Class: envelope.ClassTool, Fix: "declare the error " + e.Code + " in the tool's manifest"}
	}
	message := cmp.Or(e.Message, spec.Message)
	effect := m.effect(e.Effect)
	code, why := envelope.ToolErrorCode(spec.Class, e.Code), e.unstated(effect)
	if !declared {
		why = append(why, fmt.Sprintf("`errors` of the manifest declares no %q", e.Code))
	}
	if code.Retryable() && !m.safeAgain(effect) {
		why = append(why, fmt.Sprintf("with effect none the code would be %s", code))
		code = envelope.CodeToolUnknownState
		spec.Fix = "" // it explains how to call again
	}
	out := envelope.NewError(code, message).WithToolCode(e.Code).WithEffect(effect).WithFix(spec.Fix).
		WithCause(strings.Join(why, "; ")).WithHTTPStatus(spec.HTTPStatus).WithDetails(e.Details).WithToolResult(e.Result)
	if e.RetryAfter > 0 {
		out.WithRetryAfter(e.RetryAfter)
	}
	return out
}

// unstated says that the effect is unknown because e does not state it. Tools that return a result cannot.
func (e *Error) unstated(effect envelope.Effect) []string {
	if e.Effect != "" || effect != envelope.EffectUnknown || e.Result != nil {
		return nil
	}
	return []string{"the tool's error does not state its effect: none, applied or unknown"}
}

// BeingLoaded returns the refusal of a call of a tool whose files have changed where the tool is about to be loaded
// again. err says which file.
func BeingLoaded(toolID string, err error) *envelope.Error {
	return envelope.NewError(envelope.CodeUnavailable, "the files of "+toolID+" were edited and are not loaded yet").
		WithFix("call again with the same key in a second; if the tool has a problem, `toolbus dev` has printed it").
		WithCause(err.Error()).WithRetryAfter(loadTime)
}

// loadTime is about the time in which an edited tool is loaded again.
const loadTime = 500 * time.Millisecond

// fixChanged is the fix of a call whose program is not the loaded one.
const fixChanged = "if it was edited under `toolbus dev` after the call was admitted, call again with a new key; " +
	"elsewhere restart the executor, or restore the file"

func (e *StartError) classify(*Manifest) *envelope.Error {
	fix := "check the tool's endpoint on the executor's host, as the cause says"
	if errors.Is(e.Err, errChanged) {
		fix = fixChanged
	}
	return envelope.NewError(envelope.CodeUnavailable, "the tool could not be started").
		WithFix(fix).WithCause(e.Err.Error()).WithEffect(envelope.EffectNone)
}

func (e *CrashError) classify(m *Manifest) *envelope.Error {
	message := cmp.Or(strings.TrimSpace(e.Message), "the tool ended without an answer")
	if e.Answered {
		message = "the tool wrote its answer and then failed"
	}
	fault, cause := m.fault(message, e.Stderr), e.How+e.lastLine()
	if m.Capability.Lookup && fault.Code == envelope.CodeToolUnknownState {
		cause += "; no lookup was asked, because the executor lives and saw the tool end: one replaces the answer of an " +
			"executor that is gone"
	}
	return fault.WithCause(cause)
}

// maxLastLine is the size of a line of standard error in a cause.
const maxLastLine = 200

// lastLine returns the end of a cause: the last line of standard error, unless it is long, or the message of the error.
func (e *CrashError) lastLine() string {
	if e.Last == "" || len(e.Last) > maxLastLine || e.Message != "" && !e.Answered {
		return ""
	}
	return "; standard error ends: " + e.Last
}

func (e *ProtocolError) classify(m *Manifest) *envelope.Error {
	return m.failure(envelope.CodeToolProtocol, envelope.CodeToolProtocol, m.implied(e.Effect), e.Reason, e.Stderr).
		WithFix(e.Fix)
}

func (e *LimitError) classify(m *Manifest) *envelope.Error {
	says := fmt.Sprintf("output, chunks, progress and log, as the tool wrote them, are larger than %d bytes together",
		e.Limit)
	return m.failure(envelope.CodeOutputLimit, envelope.CodeOutputLimit, m.implied(e.Effect), says, e.Stderr)
}

func (e *SinkError) classify(m *Manifest) *envelope.Error {
	const message = "the run was ended because its chunks could not be delivered"
	return m.failure(envelope.CodeUpstream, envelope.CodeToolUnknownState, "", message, "").WithCause(e.Err.Error())
}

func (e *SurvivorError) classify(m *Manifest) *envelope.Error {
	return m.fault("the tool could not be ended", "").WithCause(e.Error())
}

// fault returns the error of a tool that failed without a reason.
func (m *Manifest) fault(message, stderr string) *envelope.Error {
	return m.failure(envelope.CodeToolFault, envelope.CodeToolUnknownState, "", message, stderr)
}

// failure returns an error with the code again if the call may run again under the same key, and else with the code
// unsafe.
func (m *Manifest) failure(
	again, unsafe envelope.Code, said envelope.Effect, message, stderr string,
) *envelope.Error {
	effect := m.effect(said)
	if !m.safeAgain(effect) {
		again = unsafe
	}
	return envelope.NewError(again, message).WithEffect(effect).WithStderr(stderr)
}

// changesNothing reports whether runs of the tool have no effect. A policy may have made a read_only tool stricter.
func (m *Manifest) changesNothing() bool {
	return m.Class == call.Pure || m.Class == call.Idempotent && m.ReadOnly
}

// implied returns the effect that a tool stated by an answer that cannot be used.
func (m *Manifest) implied(said envelope.Effect) envelope.Effect {
	if m.changesNothing() {
		return ""
	}
	return said
}

// effect returns the known effect of a failed run, given the effect that the tool stated.
func (m *Manifest) effect(said envelope.Effect) envelope.Effect {
	switch {
	case said == envelope.EffectNone || said == envelope.EffectApplied:
		return said
	case said == "" && m.changesNothing():
		return envelope.EffectNone
	}
	return envelope.EffectUnknown
}

// safeAgain reports whether a call with this effect may run again under the same key.
func (m *Manifest) safeAgain(effect envelope.Effect) bool {
	return m.Class != call.SideEffectful || effect == envelope.EffectNone
}
