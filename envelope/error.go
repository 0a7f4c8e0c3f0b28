package envelope

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Effect says whether the tool's effect took place. It is never guessed.
type Effect string

// What is known of an effect.
const (
	EffectNone    Effect = "none"
	EffectApplied Effect = "applied"
	EffectUnknown Effect = "unknown"
)

// Fault is a Go error that knows what it is in the taxonomy; streams and payload stores return such errors.
type Fault interface {
	error
	Fault() *Error
}

// Error is the error part of a Response. Build it with NewError so that every field agrees with
// the taxonomy table; a Go error never crosses the wire, only its sanitised Cause. Extra is what a newer peer
// says besides; the tool's own members are in Details.
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

// Details is the machine-readable payload of an Error. RetryAfterMS is the back-off hint. ToolResult is all that the
// tool said instead of an output, an object; of a tool of an MCP server its result with isError. Through the payload
// store it travels as ToolResultRef. Builds that know neither member keep them in Extra.
type Details struct {
	RetryAfterMS int64                  `json:"retry_after_ms,omitzero"`
	Effect       Effect                 `json:"effect,omitzero"`
	ToolCode     string                 `json:"tool_code,omitzero"`
	HTTPStatus   int                    `json:"http_status,omitzero"`
	Violations   []jsonschema.Violation `json:"violations,omitzero"`
	Stderr       string                 `json:"stderr,omitzero"`

	ToolResult    jsontext.Value `json:"tool_result,omitzero"`
	ToolResultRef *PayloadRef    `json:"tool_result_ref,omitzero"`

	Extra map[string]jsontext.Value `json:",embed"`
}

// Diagnostic is the block that Tool Gateway v1 requires.
type Diagnostic struct {
	ErrorCode    string `json:"error_code"`
	Category     string `json:"category"`
	Message      string `json:"message"`
	LikelyCause  string `json:"likely_cause"`
	SuggestedFix string `json:"suggested_fix"`
	Retryable    bool   `json:"retryable"`
	Severity     string `json:"severity"`
}
