// Package protocol defines the messages of the process protocol, for executors and for package program: the request
// that a program reads, and the lines that it writes. Package internal/tool/process documents the protocol.
package protocol

import "github.com/go-json-experiment/json/jsontext"

// MaxLine is the longest line that a program may write, its newline included.
const MaxLine = 1 << 20

// Op is what the executor wants of the program.
type Op = string

// The two operations.
const (
	OpExecute Op = "execute"
	// OpLookup asks whether the effect of the idempotency key has been committed. It changes nothing.
	OpLookup Op = "lookup"
)

// The types of a program's lines. Any number of the first three may come; one of the last three ends the call.
const (
	LineChunk    = "chunk"
	LineProgress = "progress"
	LineLog      = "log"
	LineOutput   = "output"
	LineError    = "error"
	LineAbsent   = "absent" // answers a lookup alone
)

// The lines of a program. It writes its own values into them; an executor reads these as they stand.
type (
	// Data is a line of one of the first three types.
	Data[Value any] struct {
		Type string `json:"type"`
		Data Value  `json:"data"`
	}
	// Output is the line of a success.
	Output[Value, SideEffect any] struct {
		Type        string       `json:"type"`
		Output      Value        `json:"output"`
		SideEffects []SideEffect `json:"side_effects"`
		Warnings    []string     `json:"warnings"`
	}
	// Error is the line of a failure that the tool's manifest declares.
	Error[Details any] struct {
		Type  string           `json:"type"`
		Error Failure[Details] `json:"error"`
	}
	// Failure is what an [Error] says.
	Failure[Details any] struct {
		Code         string  `json:"code"`
		Message      string  `json:"message"`
		Details      Details `json:"details,omitzero"`
		Effect       string  `json:"effect"`
		RetryAfterMS int64   `json:"retry_after_ms,omitzero"`
	}
	// Absent is the line by which a lookup finds nothing; of any other line it is the type.
	Absent struct {
		Type string `json:"type"`
	}
)

// Request is one call as the executor writes it.
type Request struct {
	Op          Op             `json:"op"`
	CallID      string         `json:"call_id"`
	ToolID      string         `json:"tool_id"`
	ToolVersion string         `json:"tool_version"`
	Fn          string         `json:"fn"`
	Input       jsontext.Value `json:"input"`
	Context     jsontext.Value `json:"context,omitzero"` // the context of the request, an object
	// IdempotencyKey is the id of the call, which no other call has: the key to commit under, to look up by, and to
	// hand to whatever the tool calls in turn.
	IdempotencyKey string `json:"idempotency_key"`
	Attempt        int    `json:"attempt"`
	// Fence grows with every run of the call, so a later run can tell leavings of an earlier one.
	Fence          uint64 `json:"fence"`
	DeadlineUnixMS int64  `json:"deadline_unix_ms"` // by the clock of the tool's host; 0 means that there is none
	DryRun         bool   `json:"dry_run"`
}
