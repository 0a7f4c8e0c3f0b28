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
	// MaxLine is the longest line a program may write, its newline included.
	MaxLine = protocol.MaxLine
	// MaxChunk is the longest data of one chunk, progress or log line.
	MaxChunk = 256 << 10
	// MaxRequest is the longest request a program reads: the largest input there is, which is 64 MiB,
	// and what is around it.
	MaxRequest = 65 << 20
)

// The two operations of a call.
const (
	OpExecute = "execute"
	// OpLookup asks whether the effect of the idempotency key has been committed. It changes nothing.
	OpLookup = "lookup"
)

// Call is one request as the executor wrote it.
type Call struct {
	Op          string         `json:"op"` // OpExecute or OpLookup
	CallID      string         `json:"call_id"`
	ToolID      string         `json:"tool_id"`
	ToolVersion string         `json:"tool_version"`
	Fn          string         `json:"fn"`
	Input       jsontext.Value `json:"input"`
	Context     jsontext.Value `json:"context,omitzero"` // the context of the request, an object
	// IdempotencyKey is the id of the call, which no other call has: the key to commit under, to look up by, and to
	// pass to other services that the tool calls.
	IdempotencyKey string `json:"idempotency_key"`
	Attempt        int    `json:"attempt"`
	// Fence grows with every run of the call, so a later run can tell what an earlier one has left.
	Fence          uint64 `json:"fence"`
	DeadlineUnixMS int64  `json:"deadline_unix_ms"` // by the clock of the tool's host; 0 is no deadline
	DryRun         bool   `json:"dry_run"`
}

var _ = Call(protocol.Request{}) // the same members as the executor writes

// Result is what a successful call produced.
type Result struct {
	Output      any // any value that encodes to JSON
	SideEffects []SideEffect
	Warnings    []string
}

// SideEffect is one change that the call made outside of itself.
type SideEffect struct {
	Kind   string `json:"kind"`
	Target string `json:"target"`
	Bytes  int64  `json:"bytes"`
}

// Effect says whether the tool's effect took place. It is never guessed.
type Effect string

// What a tool knows of its effect.
const (
	EffectNone    Effect = "none"
	EffectApplied Effect = "applied"
	EffectUnknown Effect = "unknown"
)

// Error is a failure that the tool's manifest declares.
type Error struct {
	Code       string // a name from the manifest's errors
	Message    string // for people; holds no secret and no content of the input
	Details    map[string]any
	Effect     Effect        // "" counts as EffectUnknown
	RetryAfter time.Duration // 0 means no hint
}

// Error implements error.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// NoEffect returns a failure before anything was done, or of a function that has no effect in any case.
func NoEffect(code, message string) *Error {
	return &Error{Code: code, Message: message, Effect: EffectNone}
}

// ErrAbsent is what a lookup function returns when nothing was committed under the key.
var ErrAbsent = errors.New("nothing committed under this key")

// readCall reads the one request of r. Members it does not know are ignored, so that the
// executor can grow.
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
