// Package protocol defines the messages of the process protocol, for executors and for package program: the request
// that a program reads, and the lines that it writes. Package internal/tool/process documents the protocol.
package protocol

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Op is the operation that the executor requests.
type Op = string

// The two operations.
const (
	OpExecute Op = "execute"
	// OpLookup asks whether the effect of the idempotency key has been committed. It changes nothing.
	OpLookup Op = "lookup"
)

// The codes of errors of a program that has run no function for a call. No manifest has to declare them.
const (
	Undecoded = "input_undecoded" // the function does not take the input, although the schema allows it
	Unserved  = "call_unserved"   // the program has no such function, or no lookup or dry run of it
)

// The types of a program's lines. A program may write any number of the first three. One of the last three is the
// terminal line.
const (
	LineChunk    = "chunk"
	LineProgress = "progress"
	LineLog      = "log"
	LineOutput   = "output"
	LineError    = "error"
	LineAbsent   = "absent" // only in answer to a lookup
)

// The types of lines with what a program reports of itself. A program may write any number of them before the terminal
// line.
const (
	LineMetric    = "metric"
	LineAttribute = "attribute"
	LineEvent     = "event"
)

// The lines of a program. A program uses its own types for the values. An executor decodes them as raw JSON.
type (
	// Data is a line of type chunk, progress or log.
	Data[Value any] struct {
		Type string `json:"type"`
		Data Value  `json:"data"`
	}
	// Output is the terminal line of a success.
	Output[Value, SideEffect any] struct {
		Type        string       `json:"type"`
		Output      Value        `json:"output"`
		SideEffects []SideEffect `json:"side_effects"`
		Warnings    []string     `json:"warnings"`
	}
	// Error is the terminal line of a failure that the tool's manifest declares.
	Error[Details any] struct {
		Type  string           `json:"type"`
		Error Failure[Details] `json:"error"`
	}
	// Failure is the failure in an [Error].
	Failure[Details any] struct {
		Code         string       `json:"code"`
		Message      string       `json:"message"`
		Details      Details      `json:"details,omitzero"`
		Effect       string       `json:"effect"`
		RetryAfterMS Milliseconds `json:"retry_after_ms,omitzero"`
	}
	// Report is a line of type metric, attribute or event.
	Report struct {
		Type  string         `json:"type"`
		Name  string         `json:"name"`
		Kind  string         `json:"kind"` // of a metric: counter, the default, or histogram
		Value jsontext.Value `json:"value"`
	}
	// Absent is the terminal line of a lookup that finds nothing. It also decodes the type of any other line.
	Absent struct {
		Type string `json:"type"`
	}
)

// faultPrefix begins the last line of standard error of a program that says why it failed.
const faultPrefix = "error: "

// FaultLine returns the last line of standard error of a program that failed with err, without the line break.
func FaultLine(err error) string { return faultPrefix + strings.Join(strings.Fields(err.Error()), " ") }

// Fault returns the reason in the last line of the standard error of a failed program. It is "" if that line is no
// [FaultLine]: the line is then not meant for callers.
func Fault(stderr string) string {
	reason, ok := strings.CutPrefix(LastLine(stderr), faultPrefix)
	if !ok {
		return ""
	}
	return reason
}

// LastLine returns the last line of standard error that is not empty.
func LastLine(stderr string) string {
	text := strings.TrimSpace(stderr)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// Milliseconds is a time in ms. It is read from any JSON number, or from the text of one: some languages write 1500.0,
// and values that are no I-JSON are read as text. Fractions are rounded up, and null is 0.
type Milliseconds int64

// UnmarshalJSON implements json.Unmarshaler.
func (m *Milliseconds) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*m = 0
		return nil
	}
	number, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64)
	if err != nil || math.IsNaN(number) {
		return fmt.Errorf("%.40q is not a number", text)
	}
	*m = Milliseconds(math.Ceil(min(max(number, math.MinInt32), math.MaxInt32)))
	return nil
}

// Request is the request that the executor writes to standard input.
type Request struct {
	Op          Op             `json:"op"`
	CallID      string         `json:"call_id"`
	ToolID      string         `json:"tool_id"`
	ToolVersion string         `json:"tool_version"`
	Fn          string         `json:"fn"`
	Input       jsontext.Value `json:"input"`
	// Digest is the build digest of the tool: "sha256:" and 64 hex digits.
	Digest string `json:"digest"`
	// Context holds the members of the request's context that the manifest lists. It is absent if it would be empty.
	Context jsontext.Value `json:"context,omitzero"`
	// IdempotencyKey is the id of the call, which no other call has. The tool commits its effect under it, looks the
	// effect up by it, and passes it to the services that it calls.
	IdempotencyKey string `json:"idempotency_key"`
	Attempt        int    `json:"attempt"`
	// Fence grows with every run of the call, so that a later run can recognize data of an earlier one.
	Fence          uint64 `json:"fence"`
	DeadlineUnixMS int64  `json:"deadline_unix_ms"` // by the clock of the tool's host; 0 means no deadline
	DryRun         bool   `json:"dry_run"`
	// Traceparent is the W3C traceparent of the run. It is always present.
	Traceparent string `json:"traceparent"`
}
