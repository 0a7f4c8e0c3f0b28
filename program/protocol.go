package program

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/tool/process/protocol"
)

const (
	// MaxLine is the longest line that this package writes, in bytes, including its newline. Executors of older builds
	// refuse a longer one.
	MaxLine = 1 << 20
	// MaxChunk is the largest size, in bytes, of the data of one chunk, progress or log line.
	MaxChunk = 256 << 10
	// MaxRequest is the longest request that a program reads, in bytes: the largest input, which is 64 MiB, and the other
	// members.
	MaxRequest = 65 << 20
)

// Values of [Call].Op.
const (
	// OpExecute asks for a run of the function.
	OpExecute = "execute"
	// OpLookup asks whether the effect under the idempotency key is committed. It must change nothing.
	OpLookup = "lookup"
)

// Call is the request of the executor.
type Call struct {
	Op          string         `json:"op"` // OpExecute or OpLookup
	CallID      string         `json:"call_id"`
	ToolID      string         `json:"tool_id"`
	ToolVersion string         `json:"tool_version"`
	Fn          string         `json:"fn"`
	Input       jsontext.Value `json:"input"`
	// Digest is the build digest of the tool: "sha256:" and 64 hex digits. Executors of older builds do not send it.
	Digest string `json:"digest"`
	// Context holds the members of the request's context that the manifest lists in `context`, as an object. It is absent
	// if it would be empty. Executors of older builds send the whole context.
	Context jsontext.Value `json:"context,omitzero"`
	// IdempotencyKey is the key under which to commit an effect, to look it up, and to call other services. It is the same
	// in every run of the call, and different for every other call.
	IdempotencyKey string `json:"idempotency_key"`
	Attempt        int    `json:"attempt"` // the first is 1
	// Fence is a fencing token: it grows with every run of the call.
	Fence          uint64 `json:"fence"`
	DeadlineUnixMS int64  `json:"deadline_unix_ms"` // Unix time in ms by the clock of the tool's host; 0 means none
	DryRun         bool   `json:"dry_run"`          // the function must change nothing
	// Traceparent is the W3C traceparent of this run, for the spans that the program makes. Executors of older builds do
	// not send it.
	Traceparent string `json:"traceparent"`
}

var _ = Call(protocol.Request{}) // does not compile if the executor writes other members

// Result is the result of a successful call.
type Result struct {
	Output      any // any value that encodes to JSON
	SideEffects []SideEffect
	Warnings    []string
}

// SideEffect describes one change that the call made.
type SideEffect struct {
	Kind   string `json:"kind"`   // such as file.write
	Target string `json:"target"` // the changed object; must hold no secrets
	Bytes  int64  `json:"bytes"`  // number of bytes written; 0 if unknown
}

// Effect states whether a failed call changed anything. Use EffectUnknown unless the function knows it.
type Effect string

// Values of [Effect].
const (
	EffectNone    Effect = "none"    // the call changed nothing
	EffectApplied Effect = "applied" // the effect took place
	EffectUnknown Effect = "unknown" // the effect may have taken place
)

// Error is a failure that the manifest of the tool declares.
type Error struct {
	Code       string // a name in the manifest's errors
	Message    string // describes the failure for people; must hold no secrets: callers and operators read it
	Details    map[string]any
	Effect     Effect        // "" counts as EffectUnknown
	RetryAfter time.Duration // time to wait before the next attempt; 0 gives no hint
}

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// NoEffect returns an Error with [EffectNone], for a failure before the function changed anything.
func NoEffect(code, message string) *Error {
	return &Error{Code: code, Message: message, Effect: EffectNone}
}

// ErrAbsent is the error that a lookup returns if no effect is committed under the key.
var ErrAbsent = errors.New("nothing committed under this key")

// readCall reads the request. It ignores unknown members, which a newer executor may send.
func readCall(r io.Reader) (*Call, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxRequest+1))
	if err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	if len(data) > MaxRequest {
		return nil, fmt.Errorf("read request: longer than %d bytes", MaxRequest)
	}
	var call Call
	if err := json.Unmarshal(data, &call); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	return &call, nil
}
