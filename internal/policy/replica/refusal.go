package replica

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// refused is the error of an edit that is refused.
type refused struct{ answer *envelope.Error }

func (r *refused) Error() string { return r.answer.String() }

// Refuse returns an error for which [Answer] returns e.
func Refuse(e *envelope.Error) error { return &refused{e} }

// Unrecorded returns the answer to a request that could not be recorded.
func Unrecorded(err error) *envelope.Error {
	return envelope.NewError(envelope.CodeAuditLag, "").WithRetryAfter(time.Second).WithCause(err.Error())
}

// Answer returns the answer for an error: that of [Refuse] or, for any other error, that the bucket could not be
// reached. bucket names it, as in "the control bucket".
func Answer(err error, bucket string) *envelope.Error {
	if r, ok := errors.AsType[*refused](err); ok {
		return r.answer
	}
	return envelope.NewError(envelope.CodeUnavailable, bucket+" could not be reached").
		WithRetryAfter(time.Second).WithCause(err.Error())
}

// Expected returns nil if a request may change the entry. It returns [ErrUnchanged] if the request has changed it
// last, so that this is a copy. It refuses a request that expects another revision. id is that of the request, ""
// from clients of earlier builds, and last is that of the request that stored the entry.
func (e Entry[T]) Expected(id string, revision *uint64, last string) error {
	switch {
	case id != "" && id == last:
		return ErrUnchanged
	case revision != nil && *revision != e.Revision:
		return Refuse(envelope.NewError(envelope.CodeChanged, fmt.Sprintf("what was to be changed has changed meanwhile: "+
			"revision %d was expected, and it has revision %d", *revision, e.Revision)))
	}
	return nil
}
