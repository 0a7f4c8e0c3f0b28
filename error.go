package toolbus

import (
	"errors"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/client"
)

// Error is every end of a call that is no success: the outcome of a call, what the bus refused, and what the library
// says where it knows no more, such as that nobody answered by the deadline. It is immutable.
//
//	resp, err := client.Call(ctx, call)
//	if failed, ok := errors.AsType[*toolbus.Error](err); ok && failed.Retryable() {
//		call.Key = failed.Key() // the next attempt of the same call
//	}
type Error struct {
	reason   *envelope.Error
	response *Response // nil if a request of another kind was refused
	pending  bool
}

// NewError returns the error of a response that is no success, or with nil of a request that the bus refused for
// reason.
func NewError(reason *envelope.Error, response *Response) *Error {
	return &Error{reason: reason, response: response}
}

// Error returns the code, the message, the cause, and each place of the input that is to be corrected.
func (e *Error) Error() string { return client.InFull(e.reason) }

// Code returns the error code, see docs/errors.md.
func (e *Error) Code() envelope.Code { return e.reason.Code }

// Status returns the outcome; "" if nothing but a request about a call was refused.
func (e *Error) Status() Status {
	if e.response == nil {
		return ""
	}
	return e.response.Status
}

// Effect says whether the effect of the call took place.
func (e *Error) Effect() Effect { return e.reason.Details.Effect }

// Final reports whether this is how the call ended. Otherwise it may still run, or have ended in another way: the same
// call with [Error.Key] asks again.
func (e *Error) Final() bool { return e.response != nil && e.response.Provenance.Final }

// Pending reports whether the call has no outcome yet, in an error of [Client.Result].
func (e *Error) Pending() bool { return e.pending }

// Retryable reports whether the same call with [Error.Key] may succeed.
func (e *Error) Retryable() bool { return e.reason.Code.Retryable() }

// RetryAfter returns how long to wait before the call is made again; 0 is no hint.
func (e *Error) RetryAfter() time.Duration {
	return time.Duration(e.reason.Details.RetryAfterMS) * time.Millisecond
}

// Fix says what the caller can do about it.
func (e *Error) Fix() string { return e.reason.Fix }

// Key returns the idempotency key of the call. The same call with this key asks again, or runs the next attempt after a
// [RetryableError]; it never makes a second effect. It is "" for a request that is no call, and for a call with a
// stable key that could not be sent.
func (e *Error) Key() string {
	if e.response == nil {
		return ""
	}
	return e.response.Key
}

// Reason returns the error as it is in responses, with all its members. It must not be changed.
func (e *Error) Reason() *envelope.Error { return e.reason }

// Response returns the response of the call, which must not be changed; nil if there is none.
func (e *Error) Response() *Response { return e.response }

// Unwrap returns the failure that the tool declared, as a [ToolError]; nil if the tool declared none.
func (e *Error) Unwrap() error {
	d := e.reason.Details
	if d.ToolCode == "" {
		return nil
	}
	return &ToolError{
		Name: d.ToolCode, Class: e.reason.Code.Class(), HTTPStatus: d.HTTPStatus, Message: e.reason.Message,
		Fix:    e.reason.Fix,
		Effect: d.Effect, RetryAfter: e.RetryAfter(), Details: d.Extra,
	}
}

// CodeOf returns the error code of err; "" if err is nil or has no [Error] in it.
func CodeOf(err error) envelope.Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code()
	}
	return ""
}

// EffectOf returns what is known of the effect of the call that err is about: [EffectApplied] for nil, and
// [EffectUnknown] for an error that has no [Error] in it.
func EffectOf(err error) Effect {
	if err == nil {
		return EffectApplied
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Effect()
	}
	return EffectUnknown
}

// KeyOf returns the idempotency key of the call that err is about, if err comes from [Client.Call], [Client.Stream] or
// [Invoke], and "" otherwise. The same call with this key asks for the outcome of a call that may go on, as after
// [context.Canceled] or an error of [Call.OnChunk]. It is also "" for an error about a call with a stable key that
// leaves out Function: the same call has the same key.
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

// Outcome returns the response of a call whatever its status, for programs that show all four: an [Error] of a call is
// its response and no error.
//
//	resp, err := toolbus.Outcome(client.Call(ctx, call))
func Outcome(r *Response, err error) (*Response, error) {
	if e, ok := errors.AsType[*Error](err); ok && e.response != nil {
		return e.response, nil
	}
	return r, err
}

// succeeded returns a response of the client as this package does: one that is no success is an [Error].
func succeeded(r *Response, err error) (*Response, error) {
	switch {
	case err != nil:
		return nil, ofBus(err)
	case r.Status != Success:
		return nil, NewError(r.Error, r)
	}
	return r, nil
}

// ofBus returns err as an [Error] if it is what the bus refused. All others stay as they are: they are the caller's
// own.
func ofBus(err error) error {
	if refused, ok := errors.AsType[*client.Refusal](err); ok {
		return NewError(refused.Reason, nil)
	}
	return err
}
