package client

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"
)

// NotSentError means that no part of a request has reached the server.
type NotSentError struct{ Err error }

// BrokenError means that the server, or the connection to it, was lost after a request was sent.
type BrokenError struct {
	How    string // for example "exit status 3", "signal: killed", "it does not answer any more"
	Stderr string // beginning and end of a process's standard error
}

// TooLargeError means that an answer exceeded the limit of its request and was dropped.
type TooLargeError struct{ Limit int64 } // bytes

// MalformedError means that an answer breaks the protocol.
type MalformedError struct{ Reason string }

// StatusError means that a server answered with an HTTP status instead of a result.
type StatusError struct {
	Status     int
	RetryAfter time.Duration // 0 if the server did not send it
}

// UnauthorizedError means that a server answers nobody without credentials.
type UnauthorizedError struct {
	OAuth    bool   // it takes tokens of OAuth
	Metadata string // URL of its protected resource metadata (RFC 9728); "" if it names none
}

// sessionID matches the session id in errors of the SDK. The id is as secret as a credential.
var sessionID = regexp.MustCompile(` ?\(session ID: [^)]*\)`)

// discreet returns err without the URL of a server, which may contain a credential, and without the session id, because
// callers see the error.
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

func (e *UnauthorizedError) Error() string {
	const header = "give it with --header 'Authorization=Bearer ${env:TOKEN}', from a variable of the executors, or let " +
		"import-mcp get one with --login"
	switch {
	case !e.OAuth:
		return "the server wants credentials (HTTP status 401): give them with --header"
	case e.Metadata == "":
		return "the server wants a token of OAuth (HTTP status 401): get one from its operator, and " + header
	}
	return fmt.Sprintf("the server wants a token of OAuth (HTTP status 401): %.300q says where to get one; then %s",
		e.Metadata, header)
}

func (e *NotSentError) Unwrap() error { return e.Err }
