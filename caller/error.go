package caller

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/operation"
)

// Error is the error of a call that did not succeed: an outcome other than success, a refusal of the bus, or an error
// of the client itself, such as no answer by the deadline. It is immutable, and safe for concurrent use.
//
//	resp, err := client.Call(ctx, call)
//	if failed, ok := errors.AsType[*caller.Error](err); ok && failed.Retryable() {
//		call.Key = failed.Key() // the next attempt of the same call
//	}
type Error struct {
	reason   *envelope.Error
	response *envelope.Response // nil if a request other than a call was refused
	pending  bool
	dialed   bool // it ended Connect or Renew: its text has the fix, as those of other causes have
}

// NewError returns an Error with that reason. response is the response of the call, or nil if the bus refused a request
// other than a call.
func NewError(reason *envelope.Error, response *envelope.Response) *Error {
	return &Error{reason: reason, response: response}
}

// Error returns the code, the message, the cause, and each member of the call that is invalid: a field of [Call], or a
// location in the input. If the program of the tool failed without an answer, it also returns the line of its standard
// error that says why, at most 200 bytes of it. The text of an error of [Connect] ends with a line with the fix.
func (e *Error) Error() string {
	text := operation.InFull(e.reason, say)
	if e.dialed {
		text += "\n" + e.Fix()
	}
	return text
}

// say returns the text of a violation. The request has the timeout in milliseconds, and a Call as a time.Duration.
func say(pointer, message string) string {
	if pointer == "/constraints/timeout_ms" {
		return fmt.Sprintf("Call.Timeout must be %s to %s", envelope.MinTimeoutMS*time.Millisecond,
			envelope.MaxTimeoutMS*time.Millisecond)
	}
	return fieldOf(pointer) + " " + message
}

// fieldOf returns the field of Call that a pointer into the request is about, or the pointer itself.
func fieldOf(pointer string) string {
	for _, of := range [...]struct{ member, field string }{
		{"/tool_id", "Call.Tool"}, {"/tool_version", "Call.Version"}, {"/fn", "Call.Function"}, {"/call_id", "Call.CallID"},
		{"/provenance", "Call.Provenance"}, {"/constraints/idempotency_key", "Call.Key"},
		{"/constraints/idempotency_scope", "Call.KeyScope"},
		{"/constraints/priority", "Call.Priority"}, {"/constraints/retry_policy", "Call.Retry"},
	} {
		if rest, ok := strings.CutPrefix(pointer, of.member); ok && (rest == "" || rest[0] == '/') {
			return of.field + rest
		}
	}
	return pointer
}

// Code returns the error code, see docs/errors.md.
func (e *Error) Code() envelope.Code { return e.reason.Code }

// Status returns the status of the response; "" if Response is nil.
func (e *Error) Status() envelope.Status {
	if e.response == nil {
		return ""
	}
	return e.response.Status
}

// Effect returns what is known of the effect of the call: none, applied or unknown.
func (e *Error) Effect() envelope.Effect { return e.reason.Details.Effect }

// Final reports whether the error is the outcome of the call. If not, the call may still run, or may have ended
// differently: the same call with [Error.Key] asks again.
func (e *Error) Final() bool { return e.response != nil && e.response.Provenance.Final }

// Pending reports whether this is an error of [Client.Result] about a call that has no outcome yet.
func (e *Error) Pending() bool { return e.pending }

// Retryable reports whether the same call with [Error.Key] may succeed later.
func (e *Error) Retryable() bool { return e.reason.Code.Retryable() }

// RetryAfter returns the time to wait before the next attempt; 0 means that the bus gave no hint.
func (e *Error) RetryAfter() time.Duration {
	return time.Duration(e.reason.Details.RetryAfterMS) * time.Millisecond
}

// Fix returns a sentence that says what the caller can do about the error, with the names of this package. That of
// Reason has the names of the wire.
func (e *Error) Fix() string {
	return strings.NewReplacer(
		"correct the places listed in details.violations", "correct what the text of the error names",
		"a larger timeout_ms", "a longer Call.Timeout", "details.retry_after_ms", "Error.RetryAfter",
		"the input is not JSON", "Call.Input is not JSON",
	).Replace(e.reason.Fix)
}

// Key returns the idempotency key of the call. The same call with this key asks for the outcome, or runs the next
// attempt after a [envelope.RetryableError]; it never makes a second effect. Key is "" for a request other than a call,
// and for a call with a stable key that the client could not send.
func (e *Error) Key() string {
	if e.response == nil {
		return ""
	}
	return e.response.Key
}

// Reason returns the error with all its members, in the form that responses have. Do not change it.
func (e *Error) Reason() *envelope.Error { return e.reason }

// Response returns the response of the call, or nil if the call got no response. Do not change it.
func (e *Error) Response() *envelope.Response { return e.response }

// Unwrap returns a [ToolError] if the tool failed with an error that it declares, and otherwise nil.
func (e *Error) Unwrap() error {
	d := e.reason.Details
	if d.ToolCode == "" {
		return nil
	}
	return &ToolError{
		Name: d.ToolCode, Class: e.reason.Code.Class(), HTTPStatus: d.HTTPStatus, Message: e.reason.Message,
		Fix:    e.reason.Fix,
		Effect: d.Effect, RetryAfter: e.RetryAfter(), Details: d.OfTool(),
	}
}

// CodeOf returns the code of the [Error] that err is or wraps, and "" for any other err.
func CodeOf(err error) envelope.Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code()
	}
	return ""
}

// EffectOf returns the effect of the call that returned err: [envelope.EffectApplied] if err is nil, the effect of the
// [Error] that err is or wraps, and [envelope.EffectUnknown] for any other err.
func EffectOf(err error) envelope.Effect {
	if err == nil {
		return envelope.EffectApplied
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Effect()
	}
	return envelope.EffectUnknown
}

// KeyOf returns the idempotency key of the call that returned err, if err comes from [Client.Call], [Client.Stream] or
// toolbus.Invoke, and otherwise "". The same call with this key asks for the outcome of a call that may still run, as
// after [context.Canceled] or an error of [Call.OnChunk]. KeyOf is also "" for a call with a stable key and without
// Function: then the same call has the same key anyway.
func KeyOf(err error) string {
	type keyed interface {
		error
		Key() string
	}
	if of, ok := errors.AsType[keyed](err); ok {
		return of.Key()
	}
	return ""
}

// Outcome converts the results of [Client.Call]: if err is an [Error] with a response, it returns that response and a
// nil error. It is for programs that handle all four outcomes alike.
//
//	resp, err := caller.Outcome(client.Call(ctx, call))
func Outcome(r *envelope.Response, err error) (*envelope.Response, error) {
	if e, ok := errors.AsType[*Error](err); ok && e.response != nil {
		return e.response, nil
	}
	return r, err
}

// succeeded returns r if its status is Success, and otherwise an [Error].
func succeeded(r *envelope.Response, err error) (*envelope.Response, error) {
	switch {
	case err != nil:
		return nil, ErrorOf(err)
	case r.Status != envelope.Success:
		return nil, NewError(r.Error, r)
	}
	return r, nil
}

// ErrorOf returns err as an [Error] if it is a refusal of the bus, and otherwise as it is.
func ErrorOf(err error) error {
	if refused, ok := errors.AsType[*operation.Refusal](err); ok {
		return &Error{reason: refused.Reason, dialed: refused.Dialed}
	}
	return err
}
