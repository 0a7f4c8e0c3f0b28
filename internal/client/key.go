package client

import (
	"cmp"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// StableKey returns the key that a client with [Options.StableKeys] gives to a call, see toolbus.StableKey.
func StableKey(call Call) (string, error) {
	if call.Function == "" {
		return "", errors.New("a stable key depends on the function: set Call.Function")
	}
	if call.Input == nil {
		call.Input = jsontext.Value("{}")
	}
	return envelope.StableKey(call.Tool, call.Function, cmp.Or(call.Version, "*"), call.Input)
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

// WithKey returns err with the idempotency key of the call that it is about, which a method Key of it returns.
func WithKey(err error, key string) error { return &callError{err, key} }

// withCallKey returns err with the key of the call.
func withCallKey(err error, call Call) error {
	key := call.Key
	if key == "" {
		key, _ = StableKey(call) // "" if that is not known
	}
	return &callError{err, key}
}
