package client

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
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

// sessionID is how the SDK names a session, which is as good as a credential.
var sessionID = regexp.MustCompile(` ?\(session ID: [^)]*\)`)

// discreet returns an error without the address of a server, which may hold a credential, and without its session:
// callers are told of it.
func discreet(err error) error {
	if at, ok := errors.AsType[*url.Error](err); ok {
		return at.Err
	}
	if text := err.Error(); sessionID.MatchString(text) {
		return errors.New(sessionID.ReplaceAllString(text, ""))
	}
	return err
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
