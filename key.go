package toolbus

import (
	"cmp"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// StableKey returns the idempotency key that a client with [ClientOptions.StableKeys] gives to a call: a hash of its
// Tool, Fn, Version and Input. The order of members and white space in Input make no difference. Fn must be set.
// Programs in other languages compute the same key, see docs/wire.md. It is for a caller that must find a call again
// after a crash and stores nothing. Calls with one key replay a success for 24 h (limits.retention_s of the tool): a
// caller that writes A, B and then A again with stable keys leaves B.
func StableKey(call Call) (string, error) {
	if call.Fn == "" {
		return "", errors.New("a stable key depends on the function: set Call.Fn")
	}
	if call.Input == nil {
		call.Input = jsontext.Value("{}")
	}
	return envelope.StableKey(call.Tool, call.Fn, cmp.Or(call.Version, "*"), call.Input)
}

// KeyOf returns the idempotency key of the call that err is about, if err comes from [Client.Call], [Client.Stream] or
// [Invoke], and "" otherwise. The same call with this key asks for the outcome of a call that may go on, as after
// [context.Canceled] or an error of [Call.OnChunk]. It is also "" for an error about a call with a stable key that
// leaves out Fn: the same call has the same key.
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

// callError is an error that is no outcome, with the key of the call that it is about.
type callError struct {
	error
	key string
}

// Unwrap returns the error without the key.
func (e *callError) Unwrap() error { return e.error }

// Key returns the idempotency key of the call.
func (e *callError) Key() string { return e.key }

// keyed returns err with the key of the call.
func keyed(err error, call Call) error {
	key := call.Key
	if key == "" {
		key, _ = StableKey(call) // "" if that is not known
	}
	return &callError{err, key}
}
