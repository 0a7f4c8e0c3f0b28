package envelope

import (
	"maps"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Status is one of the four outcomes of a call.
type Status string

// Values of [Status].
const (
	Success        Status = "success"
	RetryableError Status = "retryable_error"
	TerminalError  Status = "terminal_error"
	InvalidRequest Status = "invalid_request"
)

// Statuses returns all values of [Status].
func Statuses() []Status { return []Status{Success, RetryableError, TerminalError, InvalidRequest} }

// Response is the answer to a call: its outcome, a refusal, or a statement of the client. Error is nil exactly if
// Status is Success. Error, Metrics and Provenance keep unknown members in Extra and write them again, so that a stored
// outcome of a newer build is returned unchanged.
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

	// Key is the idempotency key of the call. The client that made the call sets it; it is not sent.
	Key string `json:"-"`
}

// Metrics holds measurements of one call. QueueMS is the time in milliseconds from admission to the start of the run,
// DurationMS that of the run itself. All members are always present, and 0 if unknown.
type Metrics struct {
	DurationMS   int64 `json:"duration_ms"`
	CPUMS        int64 `json:"cpu_ms"`
	MemoryPeakMB int64 `json:"memory_peak_mb"`
	QueueMS      int64 `json:"queue_ms"`
	Attempts     int   `json:"attempts"`

	Extra map[string]jsontext.Value `json:",embed"`
}

// Provenance describes which tool version ran, in which attempt and run, and how the response came about. Final is true
// for an outcome, and for a refusal that will not change. It is false for a statement of the client itself because no
// dispatcher answers, for a refusal that another dispatcher or a later request may not repeat, and for an answer to a
// caller that stops waiting while its call goes on.
//
// NotStarted is true if no executor started the call, and none will start it because of this request: the log proves
// that no executor took the attempt, or a dispatcher refused the request before admission. If Final is false, that
// holds only for the copy of the request that was answered: a client that sent several copies needs such an answer to
// each. NotStarted is false if an executor may have started the call, and in answers of older builds.
type Provenance struct {
	ToolID        string      `json:"tool_id"`
	ToolVersion   string      `json:"tool_version"`
	Digest        string      `json:"digest,omitzero"`
	Attempt       int         `json:"attempt"`
	Fence         uint64      `json:"fence,omitzero"`
	Replayed      bool        `json:"replayed"`
	Final         bool        `json:"final"`
	AuditEventID  string      `json:"audit_event_id,omitzero"`
	Counted       uint64      `json:"counted,omitzero"` // number of a refusal that is only counted
	NotStarted    bool        `json:"not_started,omitzero"`
	Chunks        *Chunks     `json:"chunks,omitzero"`
	OutputRef     *PayloadRef `json:"output_ref,omitzero"`
	PolicyApplied []string    `json:"policy_applied,omitzero"`

	Extra map[string]jsontext.Value `json:",embed"`
}

// Chunks holds the number of chunks of a run and their digest in hex, see package streaming.
type Chunks struct {
	Count  int64  `json:"count"`
	Digest string `json:"digest"`
}

// PayloadRef is the reference of a payload in the payload store (claim-check).
type PayloadRef struct {
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Pool   string `json:"pool,omitzero"` // for an output: pool of the executor that stored it
}

// Chunk is one piece of a streamed result. Index starts at 0 in every run and has no gaps. A chunk with another Fence
// than the chunk before it belongs to another run, and all chunks before it are void. The new Fence is usually higher.
// It is lower if the outcome of the call turns out to be that of an earlier run.
type Chunk struct {
	CallID string         `json:"call_id"`
	Index  int64          `json:"index"`
	Kind   ChunkKind      `json:"kind"`
	Data   jsontext.Value `json:"data"`
	Final  bool           `json:"final"`
	Fence  uint64         `json:"fence"`
}

// ChunkKind is the kind of a chunk: data of the result, progress, or a log entry.
type ChunkKind string

// Values of [ChunkKind].
const (
	ChunkData     ChunkKind = "data"
	ChunkProgress ChunkKind = "progress"
	ChunkLog      ChunkKind = "log"
)

// Accepted is the message of a dispatcher that the call of a request is durable and will have an outcome. Its decoder
// ignores unknown members.
type Accepted struct {
	CallID         string `json:"call_id"`
	Ref            string `json:"ref"`
	Attempt        int    `json:"attempt"`
	Joined         bool   `json:"joined"`
	DeadlineUnixMS int64  `json:"deadline_unix_ms"`
	ToolVersion    string `json:"tool_version"`
	// ChunkProof is the proof in the frames of the call's chunks, see package streaming. It is set only for a joiner that
	// receives them live.
	ChunkProof string `json:"chunk_proof,omitzero"`
}

// String returns the reference in the form of a header: `sha256:<hex>;<bytes>`. It leaves out Pool.
func (r PayloadRef) String() string {
	return "sha256:" + r.SHA256 + ";" + strconv.FormatInt(r.Bytes, 10)
}

// ParsePayloadRef is the inverse of [PayloadRef.String]. It returns nil if s is not a reference.
func ParsePayloadRef(s string) *PayloadRef {
	s, ok := strings.CutPrefix(s, "sha256:")
	if !ok {
		return nil
	}
	sum, bytes, ok2 := strings.Cut(s, ";")
	n, err := strconv.ParseInt(bytes, 10, 64)
	if !ok2 || err != nil || n < 0 || strconv.FormatInt(n, 10) != bytes {
		return nil // not the canonical form of the number
	}
	if len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" {
		return nil
	}
	return &PayloadRef{SHA256: sum, Bytes: n}
}

// Members of error.details that only Toolbus sets, in [Details].Extra: stored details of a tool of an older build may
// have a value of another type in them.
const (
	detailCallID      = "call_id"
	detailTraceID     = "trace_id"
	detailAttempt     = "attempt"
	detailToolID      = "tool_id"
	detailToolVersion = "tool_version"
	detailOwner       = "owner"
)

// Correlated returns the response with the members of its error's details by which people find the call in logs,
// records and traces: call_id, tool_id, tool_version and attempt of the response, and traceID. It leaves out members
// that are not known: an attempt of 0, NoCallID, an empty text, and a trace id that is not a UUID. If the response has
// no error, it returns r. It does not change r, because observers of one outcome have different call ids. Call it for
// each answer, and not for a response that is stored.
func (r *Response) Correlated(traceID string) *Response {
	if r.Error == nil {
		return r
	}
	c, e := *r, *r.Error
	e.Details.Extra = maps.Clone(e.Details.Extra)
	if e.Details.Extra == nil {
		e.Details.Extra = map[string]jsontext.Value{}
	}
	callID := r.CallID
	if callID == NoCallID {
		callID = ""
	}
	if !jsonschema.IsUUID(traceID) {
		traceID = ""
	}
	if e.Details.attach(detailAttempt, ""); r.Provenance.Attempt > 0 {
		e.Details.Extra[detailAttempt] = jsontext.Value(strconv.Itoa(r.Provenance.Attempt))
	}
	e.Details.attach(detailCallID, callID)
	e.Details.attach(detailTraceID, traceID)
	e.Details.attach(detailToolID, r.Provenance.ToolID)
	e.Details.attach(detailToolVersion, r.Provenance.ToolVersion)
	c.Error = &e
	return &c
}

// attach sets a member of Extra to text, cut to MaxID bytes, or removes the member if text is empty.
func (d *Details) attach(name, text string) {
	if text == "" {
		delete(d.Extra, name)
		return
	}
	d.Extra[name] = ijson.Quote(ijson.Clip(text, MaxID))
}

// ToolOwner returns the owner of a tool as errors and records name it: without control characters, cut to MaxID bytes.
func ToolOwner(owner string) string { return sanitise(owner, MaxID) }

// WithOwner sets the member owner of the details: the owner of the tool, see [ToolOwner], who gets reports of its
// repeated faults. It changes no map that e shares with another error.
func (e *Error) WithOwner(owner string) *Error {
	if e.Details.Extra = maps.Clone(e.Details.Extra); e.Details.Extra == nil {
		e.Details.Extra = map[string]jsontext.Value{}
	}
	e.Details.attach(detailOwner, ToolOwner(owner))
	return e
}

// OfTool returns the members of the details that the tool added, without those that Toolbus sets.
func (d Details) OfTool() map[string]jsontext.Value {
	members := maps.Clone(d.Extra)
	for _, ours := range correlation() {
		delete(members, ours)
	}
	return members
}

// correlation returns the names of the members in [Details].Extra that only Toolbus sets.
func correlation() [6]string {
	return [...]string{detailCallID, detailTraceID, detailAttempt, detailToolID, detailToolVersion, detailOwner}
}
