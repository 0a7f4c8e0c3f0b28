package toolbus

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// ToolError is a failure that a tool declares: callers get it as an outcome with a code of the tool's own, and
// know by its class whether to try again. Declare it once, as a variable; name it in the Errors of its [Tool];
// return it, or what [ToolError.Because] makes of it, from the function. An error that wraps it will do.
//
//	var errNotFound = &toolbus.ToolError{
//		Name: "not_found", Class: "P-PRECOND", HTTPStatus: 404,
//		Message: "there is no such file", Fix: "list the files first",
//	}
type ToolError struct {
	Name string // lower-case letters, digits and _, at most 64 bytes
	// Class is one of I-REQ, A-AUTH, P-PRECOND, R-TIMEOUT, R-UPSTREAM, R-CAP, S-TOOL, C-CONTRACT and D-DATA;
	// those with R may be tried again. See docs/errors.md.
	Class      envelope.ErrorClass
	HTTPStatus int    // 400 to 599; 0 is that of the class
	Message    string // what went wrong, for people; without secrets, and without content of the input
	Fix        string // what the caller can do about it

	// Of one failure; none of them is part of the declaration.
	Effect     Effect        // what became of the effect, if the tool knows
	RetryAfter time.Duration // when to try again, at most a day; 0 is no hint
	Details    any           // encodes to a JSON object; nil is none
}

// Error implements error.
func (e *ToolError) Error() string { return e.Name + ": " + e.Message }

// Is reports whether target is the same declared error, whatever was the reason.
func (e *ToolError) Is(target error) bool {
	of, ok := target.(*ToolError)
	return ok && of.Name == e.Name
}

// Because returns the error with a message of its own, as fmt.Sprintf makes it. The declaration stays as it is.
func (e *ToolError) Because(format string, args ...any) *ToolError {
	one := *e
	one.Message = fmt.Sprintf(format, args...)
	return &one
}

// said is the error of a function in the words of adapters. An error that is none of the declared ones is a fault of
// the tool.
func said(err error) error {
	declared, ok := errors.AsType[*ToolError](err)
	if !ok || declared == nil {
		return err
	}
	e := &tool.Error{
		Code: declared.Name, Message: declared.Message, Effect: declared.Effect, RetryAfter: declared.RetryAfter,
	}
	if declared.Details != nil {
		details, bad := json.Marshal(declared.Details, asJSON)
		if bad != nil {
			return fmt.Errorf("%w; its details: %w", err, bad)
		}
		e.Details = details
	}
	return e
}
