package envelope

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// NewError returns an Error with the code, the message, and all other fields from the taxonomy. An empty message uses
// that of the taxonomy, too. The With methods change the Error in place and return it.
func NewError(code Code, message string) *Error {
	row := Lookup(code)
	if message = sanitise(message, MaxMessage); message == "" {
		message = row.Message
	}
	return &Error{
		Code:      code,
		Message:   message,
		Details:   Details{RetryAfterMS: row.RetryAfterMS, Effect: row.Effect},
		Fix:       row.Fix,
		Category:  row.Category,
		Retryable: row.Status == RetryableError,
		Diagnostic: &Diagnostic{
			ErrorCode: row.Gateway, Category: row.Category, Message: message, LikelyCause: row.LikelyCause,
			SuggestedFix: row.Fix, Retryable: row.Status == RetryableError, Severity: row.Severity,
		},
	}
}

// WithEffect sets the effect.
func (e *Error) WithEffect(effect Effect) *Error {
	e.Details.Effect = effect
	return e
}

// WithRetryAfter sets the back-off hint, at most MaxRetryAfter. It does nothing if the error is not retryable.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	if e.Retryable {
		e.Details.RetryAfterMS = min(max(0, d), MaxRetryAfter).Milliseconds()
	}
	return e
}

// WithFix replaces the fix, which says what the caller can do.
func (e *Error) WithFix(fix string) *Error {
	if fix = sanitise(fix, MaxMessage); fix != "" {
		e.Fix = fix
		if e.Diagnostic != nil {
			e.Diagnostic.SuggestedFix = fix
		}
	}
	return e
}

// WithCause sets the cause to the text of a Go error or a tool, sanitised and cut to MaxCause bytes.
func (e *Error) WithCause(cause string) *Error {
	e.Cause = sanitise(cause, MaxCause)
	return e
}

// WithViolations adds broken rules, at most ijson.MaxViolations, with texts of bounded length. It sets
// Details.ViolationsTruncated if it leaves out others.
func (e *Error) WithViolations(v ...jsonschema.Violation) *Error {
	e.Details.ViolationsTruncated = len(v) > ijson.MaxViolations
	v = v[:min(len(v), ijson.MaxViolations)]
	e.Details.Violations = make([]jsonschema.Violation, len(v))
	for i, x := range v {
		e.Details.Violations[i] = ijson.NewViolation(x.Pointer, ijson.Clip(x.Rule, MaxCode), x.Message)
	}
	return e
}

// WithToolCode sets the name of the error in the manifest of the tool.
func (e *Error) WithToolCode(name string) *Error {
	e.Details.ToolCode = sanitise(name, MaxCode)
	return e
}

// WithHTTPStatus sets the HTTP status that the manifest gives the error, if it is the status of an error.
func (e *Error) WithHTTPStatus(status int) *Error {
	if 400 <= status && status <= 599 {
		e.Details.HTTPStatus = status
	}
	return e
}

// WithStderr sets the last MaxStderr bytes that the tool wrote to stderr.
func (e *Error) WithStderr(stderr string) *Error {
	e.Details.Stderr = printable(stderr[max(0, len(stderr)-MaxStderr):], "\n\t")
	return e
}

// WithDetails sets Details.Extra to the members of the details object of a tool, without the members that Toolbus
// defines. If the object is not I-JSON, nested too deeply or larger than MaxErrorDetails, it sets only the member
// details_dropped.
func (e *Error) WithDetails(object jsontext.Value) *Error {
	var members map[string]jsontext.Value
	if len(object) == 0 {
		return e
	}
	const above = 2 // depth of the objects around it: the response and its error
	said := ijson.Scan(object, "")
	if len(object) > MaxErrorDetails || said.Violations != nil || said.Depth+above > ijson.MaxDepth ||
		json.Unmarshal(object, &members) != nil {
		members = map[string]jsontext.Value{"details_dropped": jsontext.Value("true")}
	}
	for _, ours := range []string{
		"retry_after_ms", "effect", "tool_code", "http_status", "violations", "violations_truncated", "stderr",
		"tool_result", "tool_result_ref",
	} {
		delete(members, ours)
	}
	e.Details.Extra = Details{Extra: members}.OfTool()
	return e
}

// WithToolResult sets the object that the tool returned instead of an output. It must be I-JSON.
func (e *Error) WithToolResult(result jsontext.Value) *Error {
	e.Details.ToolResult = result
	return e
}

// String returns the code and the message, for logs. Error does not implement the error interface, because a nil *Error
// in an error would not be nil.
func (e *Error) String() string { return string(e.Code) + ": " + e.Message }

// sanitise makes s safe to show anywhere: one line of valid, printable text of at most n bytes.
func sanitise(s string, n int) string {
	return ijson.Clip(strings.TrimSpace(printable(s[:min(len(s), 4*n)], "")), n)
}

// printable removes control characters, except those in keep, and invalid UTF-8. A removed line
// break leaves a space.
func printable(s, keep string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case strings.ContainsRune(keep, r):
			return r
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r == utf8.RuneError, r < 0x20, 0x7f <= r && r < 0xa0, bidi(r):
			return -1
		}
		return r
	}, s)
}

// bidi reports whether r is a control character for bidirectional text, which can change the order in which text is
// shown.
func bidi(r rune) bool {
	return 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 || r == 0x2028 || r == 0x2029 || r == 0xfeff
}

// NoCallID is the call id in the answer to a request without a valid call id.
const NoCallID = "00000000-0000-0000-0000-000000000000"

// FixApplied replaces the fix of an error whose effect is EffectApplied, so that no fix advises to repeat such a call.
const FixApplied = "do not repeat the call with another key, for its effect took place; " +
	"look at what it has done, and report this error to the operator"

// Failure returns a response with the error e and the status of its code. If callID is not a UUID, it becomes NoCallID,
// so that the response is valid by its schema. If the effect of e is EffectApplied, its fix becomes [FixApplied].
func Failure(callID string, e *Error, p Provenance, m Metrics) *Response {
	if e.Details.Effect == EffectApplied {
		e.WithFix(FixApplied)
	}
	if !jsonschema.IsUUID(callID) {
		callID = NoCallID
	}
	return &Response{CallID: callID, Status: e.Code.Status(), Error: e, Metrics: m, Provenance: p}
}

// Check returns an error unless the response is consistent: Status is valid; Error is set exactly if Status is not
// Success, and its code has that status; an output, or a reference to one, is set only with Success.
func (r *Response) Check() error {
	switch {
	case !jsonschema.IsUUID(r.CallID):
		return errors.New("call_id is no UUID")
	case r.Status == Success:
		return r.checkSuccess()
	case r.Error == nil:
		return fmt.Errorf("%s without an error", r.Status)
	case r.Error.Code == "" || r.Error.Code.Status() != r.Status:
		return fmt.Errorf("status %s does not fit code %s", r.Status, r.Error.Code)
	case r.Error.Retryable != (r.Status == RetryableError):
		return fmt.Errorf("retryable is %t in a %s", r.Error.Retryable, r.Status)
	case !r.Error.Details.Effect.known():
		return errors.New("the error does not say what is known of the effect")
	case len(r.Output) > 0 || r.Provenance.OutputRef != nil:
		return errors.New("an error with an output")
	}
	return nil
}

func (e Effect) known() bool { return e == EffectNone || e == EffectApplied || e == EffectUnknown }

func (r *Response) checkSuccess() error {
	switch {
	case r.Error != nil:
		return errors.New("success with an error")
	case r.Provenance.ToolID == "" || r.Provenance.ToolVersion == "":
		return errors.New("success without the tool_id or tool_version that ran")
	case len(r.Output) > 0 && r.Provenance.OutputRef != nil:
		return errors.New("an output inline and by reference")
	case len(r.Output) == 0 && r.Provenance.OutputRef == nil:
		return errors.New("success without an output")
	}
	return nil
}
