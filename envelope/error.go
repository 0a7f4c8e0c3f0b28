package envelope

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Effect states whether a call changed anything. It is EffectUnknown unless the log or the tool proves another value.
type Effect string

// Values of [Effect]: nothing changed, the effect took place, or it may have taken place.
const (
	EffectNone    Effect = "none"
	EffectApplied Effect = "applied"
	EffectUnknown Effect = "unknown"
)

// Fault is a Go error with an entry in the error taxonomy. Package streaming returns such errors.
type Fault interface {
	error
	Fault() *Error
}

// Error is the error of a Response. Make it with [NewError], so that its fields agree with the taxonomy. A Go error is
// never sent, only its sanitised text in Cause. Extra holds unknown members; those of the tool are in Details.
type Error struct {
	Code       Code        `json:"code"`
	Message    string      `json:"message"`
	Details    Details     `json:"details"`
	Fix        string      `json:"fix"`
	Category   string      `json:"category"`
	Retryable  bool        `json:"retryable"`
	Cause      string      `json:"cause,omitzero"`
	Diagnostic *Diagnostic `json:"diagnostic,omitzero"`

	Extra map[string]jsontext.Value `json:",embed"`
}

// Details holds the machine-readable members of an Error. RetryAfterMS is the back-off hint. ToolResult is the object
// that the tool returned instead of an output, such as the result of an MCP tool with isError. ToolResultRef is its
// reference if it is in the payload store. Extra holds unknown members, those that the tool added, and those of
// [Response.Correlated]; see [Details.OfTool].
type Details struct {
	RetryAfterMS int64                  `json:"retry_after_ms,omitzero"`
	Effect       Effect                 `json:"effect,omitzero"`
	ToolCode     string                 `json:"tool_code,omitzero"`
	HTTPStatus   int                    `json:"http_status,omitzero"`
	Violations   []jsonschema.Violation `json:"violations,omitzero"`
	Stderr       string                 `json:"stderr,omitzero"`

	// ViolationsTruncated means that Violations leaves out further ones.
	ViolationsTruncated bool `json:"violations_truncated,omitzero"`

	ToolResult    jsontext.Value `json:"tool_result,omitzero"`
	ToolResultRef *PayloadRef    `json:"tool_result_ref,omitzero"`

	Extra map[string]jsontext.Value `json:",embed"`
}

// Diagnostic is the diagnostic block of Tool Gateway Contract v1.
type Diagnostic struct {
	ErrorCode    string `json:"error_code"`
	Category     string `json:"category"`
	Message      string `json:"message"`
	LikelyCause  string `json:"likely_cause"`
	SuggestedFix string `json:"suggested_fix"`
	Retryable    bool   `json:"retryable"`
	Severity     string `json:"severity"`
}
