package envelope

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Status is one of the four outcomes a call can have. There are no others.
type Status string

// The four outcomes.
const (
	Success        Status = "success"
	RetryableError Status = "retryable_error"
	TerminalError  Status = "terminal_error"
	InvalidRequest Status = "invalid_request"
)

// Statuses returns all of them.
func Statuses() []Status { return []Status{Success, RetryableError, TerminalError, InvalidRequest} }

// Response is the outcome of a call. It validates against the source contract's
// response.json verbatim: additions live inside error, metrics and provenance. What a newer peer says there
// besides, each of them keeps as Extra and writes on, so that an outcome is told as it was stored.
type Response struct {
	CallID      string           `json:"call_id"`
	Status      Status           `json:"status"`
	Output      jsontext.Value   `json:"output,omitzero"`
	Error       *Error           `json:"error,omitzero"`
	SideEffects []jsontext.Value `json:"side_effects,omitzero"`
	Metrics     Metrics          `json:"metrics"`
	Provenance  Provenance       `json:"provenance"`
	Warnings    []string         `json:"warnings,omitzero"`
	CommitToken *string          `json:"commit_token,omitzero"`

	// Key is the idempotency key of the call, which the client sets that made the call. It is not on the wire.
	Key string `json:"-"`
}

// Metrics of one call; zero values are valid and always present. QueueMS is the time from
// admission to the start of the run, DurationMS the run itself.
type Metrics struct {
	DurationMS   int64 `json:"duration_ms"`
	CPUMS        int64 `json:"cpu_ms"`
	MemoryPeakMB int64 `json:"memory_peak_mb"`
	QueueMS      int64 `json:"queue_ms"`
	Attempts     int   `json:"attempts"`

	Extra map[string]jsontext.Value `json:",embed"`
}

// Provenance says what ran and how the outcome came about. Final is false in what is no outcome, and no refusal
// that stands: a statement of the client library's own because the bus is gone; a refusal that another dispatcher,
// or the same a moment later, may contradict; a word to a caller that stops waiting while its call goes on.
//
// NotStarted is true if no executor started the call, and none will because of the request that is answered: the log
// proves that no executor took its attempt, or a dispatcher refused it before admission. A refusal with Final false
// speaks of one copy of the request, so that all copies must be answered with it. NotStarted is false where an executor
// may have started, and in every answer of a build that does not know the member.
type Provenance struct {
	ToolID        string      `json:"tool_id"`
	ToolVersion   string      `json:"tool_version"`
	Digest        string      `json:"digest,omitzero"`
	Attempt       int         `json:"attempt"`
	Fence         uint64      `json:"fence,omitzero"`
	Replayed      bool        `json:"replayed"`
	Final         bool        `json:"final"`
	AuditEventID  string      `json:"audit_event_id,omitzero"`
	Counted       uint64      `json:"counted,omitzero"` // of a refusal that is on record in a count: which of it
	NotStarted    bool        `json:"not_started,omitzero"`
	Chunks        *Chunks     `json:"chunks,omitzero"`
	OutputRef     *PayloadRef `json:"output_ref,omitzero"`
	PolicyApplied []string    `json:"policy_applied,omitzero"`

	Extra map[string]jsontext.Value `json:",embed"`
}

// Chunks counts what a streaming run emitted; Digest is the SHA-256 over its chunk data, hex.
type Chunks struct {
	Count  int64  `json:"count"`
	Digest string `json:"digest"`
}

// PayloadRef points to a payload that was too large to travel inline (claim-check).
type PayloadRef struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Pool   string `json:"pool,omitzero"` // of an output: of the executor that stored it
}

// Chunk is one piece of a streamed result. Index starts at 0 in every run and has no gaps; another
// Fence means that this is another run of the call, and what came before is void. It is a higher
// one as a rule, and a lower one where the outcome turns out to be that of an earlier run.
type Chunk struct {
	CallID string         `json:"call_id"`
	Index  int64          `json:"index"`
	Kind   ChunkKind      `json:"kind"`
	Data   jsontext.Value `json:"data"`
	Final  bool           `json:"final"`
	Fence  uint64         `json:"fence"`
}

// ChunkKind tells result data from progress and log lines.
type ChunkKind string

// The kinds of chunk.
const (
	ChunkData     ChunkKind = "data"
	ChunkProgress ChunkKind = "progress"
	ChunkLog      ChunkKind = "log"
)

// Accepted tells the caller that its call is durable and will be decided. Nobody writes it on, so what a newer
// peer says besides is ignored.
type Accepted struct {
	CallID         string `json:"call_id"`
	Ref            string `json:"ref"`
	Attempt        int    `json:"attempt"`
	Joined         bool   `json:"joined"`
	DeadlineUnixMS int64  `json:"deadline_unix_ms"`
	ToolVersion    string `json:"tool_version"`
	// ChunkProof is what the frames of the call's chunks carry, for a joiner who hears them; "" otherwise.
	ChunkProof string `json:"chunk_proof,omitzero"`
}

// String is the reference as a header carries it: `sha256:<hex>;<bytes>`.
func (r PayloadRef) String() string {
	return "sha256:" + r.SHA256 + ";" + strconv.FormatInt(r.Bytes, 10)
}

// ParsePayloadRef is the inverse of String; it returns nil for anything else.
func ParsePayloadRef(s string) *PayloadRef {
	s, ok := strings.CutPrefix(s, "sha256:")
	if !ok {
		return nil
	}
	sum, bytes, ok2 := strings.Cut(s, ";")
	n, err := strconv.ParseInt(bytes, 10, 64)
	if !ok2 || err != nil || n < 0 || strconv.FormatInt(n, 10) != bytes {
		return nil // only one spelling of a number is taken
	}
	if len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" {
		return nil
	}
	return &PayloadRef{SHA256: sum, Bytes: n}
}
