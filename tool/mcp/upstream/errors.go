package upstream

import (
	"fmt"
	"time"
)

// NotSentError means that nothing of a request has reached the server.
type NotSentError struct{ Err error }

// BrokenError means that the server, or the way to it, was lost while a request was with it.
type BrokenError struct {
	How    string // for example "exit status 3", "signal: killed", "it does not answer any more"
	Stderr string // of a process, its beginning and end
}

// TooLargeError means that an answer is larger than was asked for. It was not kept.
type TooLargeError struct{ Limit int64 } // bytes

// MalformedError means that an answer is not what the protocol says.
type MalformedError struct{ Reason string }

// StatusError means that a server answered with an HTTP status instead of a result.
type StatusError struct {
	Status     int
	RetryAfter time.Duration // 0 where it did not say
}

func (e *NotSentError) Error() string { return "not sent: " + e.Err.Error() }
func (e *BrokenError) Error() string  { return "the server was lost: " + e.How }
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("an answer of more than %d bytes", e.Limit)
}
func (e *MalformedError) Error() string {
	return "the answer of the server is not what MCP says: " + e.Reason
}
func (e *StatusError) Error() string {
	return fmt.Sprintf("the server answered with HTTP status %d", e.Status)
}

func (e *NotSentError) Unwrap() error { return e.Err }
