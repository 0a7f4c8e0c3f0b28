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

// NewError returns the error of a code with every field as the taxonomy has it; message "" means
// the row's. The With methods change it in place and return it.
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

// WithEffect says what is known of the tool's effect.
func (e *Error) WithEffect(effect Effect) *Error {
	e.Details.Effect = effect
	return e
}

// WithRetryAfter replaces the back-off hint, which is MaxRetryAfter at the most. Only a retryable error has one.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	if e.Retryable {
		e.Details.RetryAfterMS = min(max(0, d), MaxRetryAfter).Milliseconds()
	}
	return e
}

// WithFix replaces the hint how to mend it.
func (e *Error) WithFix(fix string) *Error {
	if fix = sanitise(fix, MaxMessage); fix != "" {
		e.Fix = fix
		if e.Diagnostic != nil {
			e.Diagnostic.SuggestedFix = fix
		}
	}
	return e
}

// WithCause keeps what a Go error or a tool said, sanitised and bounded.
func (e *Error) WithCause(cause string) *Error {
	e.Cause = sanitise(cause, MaxCause)
	return e
}

// WithViolations lists broken rules, at most ijson.MaxViolations, each with bounded texts.
func (e *Error) WithViolations(v ...jsonschema.Violation) *Error {
	v = v[:min(len(v), ijson.MaxViolations)]
	e.Details.Violations = make([]jsonschema.Violation, len(v))
	for i, x := range v {
		e.Details.Violations[i] = ijson.NewViolation(x.Pointer, ijson.Clip(x.Rule, MaxCode), x.Message)
	}
	return e
}

// WithToolCode keeps the name that the tool itself gave the error.
func (e *Error) WithToolCode(name string) *Error {
	e.Details.ToolCode = sanitise(name, MaxCode)
	return e
}

// WithHTTPStatus keeps the HTTP status that the tool's manifest gives the error, if it is one of
// an error.
func (e *Error) WithHTTPStatus(status int) *Error {
	if 400 <= status && status <= 599 {
		e.Details.HTTPStatus = status
	}
	return e
}

// WithStderr keeps the end of what the tool wrote to stderr, where the reason usually is.
func (e *Error) WithStderr(stderr string) *Error {
	e.Details.Stderr = printable(stderr[max(0, len(stderr)-MaxStderr):], "\n\t")
	return e
}

// WithDetails keeps the members of a tool's own details object. Members that Toolbus defines
// itself are left out, since the tool must not speak for it; so is an object that is no
// I-JSON, too deep or larger than MaxErrorDetails, and then the error says details_dropped.
func (e *Error) WithDetails(object jsontext.Value) *Error {
	var members map[string]jsontext.Value
	if len(object) == 0 {
		return e
	}
	const above = 2 // what is around the object: the response and its error
	said := ijson.Scan(object, "")
	if len(object) > MaxErrorDetails || said.Violations != nil || said.Depth+above > ijson.MaxDepth ||
		json.Unmarshal(object, &members) != nil {
		members = map[string]jsontext.Value{"details_dropped": jsontext.Value("true")}
	}
	for _, ours := range []string{
		"retry_after_ms", "effect", "tool_code", "http_status", "violations", "stderr", "tool_result", "tool_result_ref",
	} {
		delete(members, ours)
	}
	e.Details.Extra = members
	return e
}

// WithToolResult keeps all that the tool said instead of an output: an object of I-JSON.
func (e *Error) WithToolResult(result jsontext.Value) *Error {
	e.Details.ToolResult = result
	return e
}

// String returns the code and the message, for logs. Error is deliberately no Go error: a nil
// *Error in an error interface would not be nil.
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

// bidi reports characters that make text read otherwise than it is stored.
func bidi(r rune) bool {
	return 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 || r == 0x2028 || r == 0x2029 || r == 0xfeff
}

// NoCallID is the call id in the answer to a request that has none, or none that can be read.
const NoCallID = "00000000-0000-0000-0000-000000000000"

// FixApplied replaces the fix of an error in a response that says that the effect took place: no text may advise to
// repeat such a call.
const FixApplied = "do not repeat the call with another key, for its effect took place; " +
	"look at what it has done, and report this error to the operator"

// Failure returns the response that carries e; its status is that of the code. A callID that is
// no UUID is answered as NoCallID, so that every answer fits its schema. If the effect took place, the fix becomes
// [FixApplied].
func Failure(callID string, e *Error, p Provenance, m Metrics) *Response {
	if e.Details.Effect == EffectApplied {
		e.WithFix(FixApplied)
	}
	if !jsonschema.IsUUID(callID) {
		callID = NoCallID
	}
	return &Response{CallID: callID, Status: e.Code.Status(), Error: e, Metrics: m, Provenance: p}
}

// Check reports whether the response is coherent: one of the four outcomes, an error exactly
// when it is no success and then one of that status, an output (or a reference to it) only with
// success.
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
