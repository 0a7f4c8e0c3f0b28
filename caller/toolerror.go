package caller

import (
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// ToolError is a failure that a tool declares. Callers get it as an outcome with the Name as the tool's own code, and
// see by its class whether to try again. Declare it once, as a variable, and list it in the Errors of its toolbus.Tool.
// The function returns it, or the result of [ToolError.Because], or an error that wraps one of them.
//
//	var errNotFound = &toolbus.ToolError{
//		Name: "not_found", Class: "P-PRECOND", HTTPStatus: 404,
//		Message: "there is no such file", Fix: "list the files first",
//	}
type ToolError struct {
	Name string // lower-case letters, digits and _, at most 64 bytes
	// Class is one of I-REQ, A-AUTH, P-PRECOND, R-TIMEOUT, R-UPSTREAM, R-CAP, S-TOOL, C-CONTRACT and D-DATA. Callers may
	// try again after an error of a class that begins with R, and of S-TOOL. See docs/errors.md.
	Class      envelope.ErrorClass
	HTTPStatus int // 400 to 599; 0 uses the default of the class
	// Message describes the failure for people. It must hold no secrets. The call log keeps it in the outcome, and callers
	// and operators read it.
	Message string
	Fix     string // says what the caller can do

	// The fields below describe one failure. They are not part of the declaration.
	Effect     envelope.Effect //  of this run; "" if the tool does not know
	RetryAfter time.Duration   // time to wait before the next attempt, at most 24 h; 0 gives no hint
	Details    any             // must encode to a JSON object; nil adds no details
}

// Error implements error.
func (e *ToolError) Error() string { return e.Name + ": " + e.Message }

// Is reports whether target is a ToolError with the same Name.
func (e *ToolError) Is(target error) bool {
	of, ok := target.(*ToolError)
	return ok && of.Name == e.Name
}

// Because returns a copy of the error with the message that fmt.Sprintf makes.
func (e *ToolError) Because(format string, args ...any) *ToolError {
	one := *e
	one.Message = fmt.Sprintf(format, args...)
	return &one
}
