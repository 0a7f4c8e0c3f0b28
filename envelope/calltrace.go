package envelope

import "time"

// TraceResponse holds the events of a call that its log shows: attempt after attempt, and within one from its request
// to its outcome. Now is the bus time of the answer.
type TraceResponse struct {
	Ref     string       `json:"ref"`
	Tool    string       `json:"tool"`
	Fn      string       `json:"fn"`
	Version string       `json:"tool_version"`
	Tenant  string       `json:"tenant"`
	Pool    string       `json:"pool"`
	Now     time.Time    `json:"now"`
	Events  []TraceEvent `json:"events"`
}

// TraceEvent is an event of an attempt. At is bus time. Members that do not apply to its kind are left out.
type TraceEvent struct {
	Kind    TraceKind `json:"kind"`
	Attempt int       `json:"attempt"`
	At      time.Time `json:"at"`
	// DurationMS is the time in milliseconds that a run took. It is missing while the run goes on, which Running says.
	DurationMS int64 `json:"duration_ms,omitzero"`
	Running    bool  `json:"running,omitzero"`
	// Lost means that the executor of a run was lost: another one continued the attempt, and DurationMS is until then.
	// The run is also lost, at the deadline, if no dispatcher served then. It means for a claim that an earlier run may
	// have been lost. A pure or idempotent call has no claim at its first run, and this first claim came late enough for
	// a second one.
	Lost bool `json:"lost,omitzero"`
	// By is the process: the dispatcher of a request, the executor of a claim, a run or a lookup, and the decider of an
	// outcome.
	By string `json:"by,omitzero"`
	// Actor sent the request. It is missing if the sender of the question is another actor and no operator.
	Actor    string    `json:"actor,omitzero"`
	TraceID  string    `json:"trace_id,omitzero"` // of a request
	Priority Priority  `json:"priority,omitzero"` // of a request
	Deadline time.Time `json:"deadline,omitzero"` // of a request
	Joined   int       `json:"joined,omitzero"`   // requests that have joined the attempt since the event before
	Claim    int       `json:"claim,omitzero"`    // number of the claim
	// Chunks are the numbers of stored chunks of a run by kind. ChunksMore means that some were not counted.
	Chunks     map[ChunkKind]int64 `json:"chunks,omitzero"`
	ChunksMore bool                `json:"chunks_more,omitzero"`
	// Fence identifies the run of the chunks, see [ChunksRequest].
	Fence       uint64 `json:"fence,omitzero"`
	Answer      string `json:"answer,omitzero"` // of a lookup that was asked: absent, or failed if it gave no answer
	Status      Status `json:"status,omitzero"`
	Code        Code   `json:"code,omitzero"`
	Effect      Effect `json:"effect,omitzero"`
	DecidedBy   string `json:"decided_by,omitzero"`   // executor, deadline, canceller or dispatcher
	ChunksTotal int64  `json:"chunks_total,omitzero"` // of an outcome: number of chunks of its run
}

// TraceKind is the kind of an event of a call.
type TraceKind string

// Values of [TraceKind]. A claim is written only before a run that may not be repeated, and before a further run.
const (
	TraceRequested TraceKind = "requested"
	TraceJoined    TraceKind = "joined"
	TraceClaimed   TraceKind = "claimed"
	TraceRun       TraceKind = "run"
	TraceLookup    TraceKind = "lookup" // the lookup of the tool found the effect of a run whose executor was lost
	TraceAsked     TraceKind = "asked"  // the lookup did not find that effect
	TraceOutcome   TraceKind = "outcome"
)
