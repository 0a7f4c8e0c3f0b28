package envelope

import "github.com/go-json-experiment/json/jsontext"

// Request asks for one call of one tool function. Its JSON form is the source
// contract's request.json plus the optional fields named below. Unknown fields are refused, but for those of
// context and constraints.retry_policy, which are open there: each keeps them as Extra and writes them on.
type Request struct {
	CallID      string         `json:"call_id"`
	ToolID      string         `json:"tool_id"`
	ToolVersion string         `json:"tool_version"`
	Fn          string         `json:"fn"`
	Input       jsontext.Value `json:"input"`
	Context     RequestContext `json:"context"`
	Constraints Constraints    `json:"constraints"`
	Provenance  jsontext.Value `json:"provenance,omitzero"`
	DryRun      bool           `json:"dry_run,omitzero"`
}

// RequestContext says who asks, on whose behalf and in which trace. Extra holds what else the caller says, as it said
// it: Toolbus only passes it on, down to the tool, and nothing vouches for it. It counts towards MaxHead,
// MaxHeadValues and the depth of the whole, and no two requests differ by it: it is part of neither [Fingerprint] nor
// [CallKeyID].
type RequestContext struct {
	ActorID      string            `json:"actor_id"`
	Scopes       []string          `json:"scopes,omitzero"`
	TraceID      string            `json:"trace_id"`
	ParentSpanID string            `json:"parent_span_id,omitzero"`
	Locale       string            `json:"locale,omitzero"`
	Timezone     string            `json:"timezone"`
	Clock        string            `json:"clock,omitzero"`
	Env          string            `json:"env"`
	SessionID    string            `json:"session_id,omitzero"`
	RoleID       string            `json:"role_id,omitzero"`
	RunID        string            `json:"run_id,omitzero"`
	LaneID       string            `json:"lane_id,omitzero"`
	Scope        map[string]string `json:"scope,omitzero"`
	Confidence   *float64          `json:"confidence,omitzero"`
	Evidence     []string          `json:"evidence,omitzero"`

	Extra map[string]jsontext.Value `json:",embed"`
}

// Constraints bound one call. TimeoutMS is in milliseconds from receipt, DeadlineUnixMS an
// absolute time; the earlier one, or the tool's own maximum, is the effective deadline.
type Constraints struct {
	TimeoutMS        int64          `json:"timeout_ms"`
	DeadlineUnixMS   int64          `json:"deadline_unix_ms"`
	IdempotencyKey   string         `json:"idempotency_key"`
	IdempotencyScope KeyScope       `json:"idempotency_scope,omitzero"`
	Priority         Priority       `json:"priority,omitzero"`
	PreferStreaming  bool           `json:"prefer_streaming,omitzero"`
	CacheKey         string         `json:"cache_key,omitzero"`
	Budget           jsontext.Value `json:"budget,omitzero"`
	MemoryMBLimit    int64          `json:"memory_mb_limit,omitzero"`
	NetAllowlist     []string       `json:"net_allowlist,omitzero"`
	RetryPolicy      *RetryPolicy   `json:"retry_policy,omitzero"`
}

// RetryPolicy tunes the caller's own retries; the last three fields are not in the source contract.
// The n-th pause is base_ms * backoff_multiplier^(n-1), at most cap_ms; jitter "full" takes a random part of
// it, and jitter_percent, where given, adds up to so much to it instead. What Extra holds, tunes nothing here.
type RetryPolicy struct {
	MaxAttempts       int      `json:"max_attempts,omitzero"`
	BaseMS            int64    `json:"base_ms,omitzero"`
	CapMS             int64    `json:"cap_ms,omitzero"`
	Jitter            string   `json:"jitter,omitzero"`
	BackoffMultiplier float64  `json:"backoff_multiplier,omitzero"`
	JitterPercent     float64  `json:"jitter_percent,omitzero"`
	RetryableErrors   []string `json:"retryable_errors,omitzero"`

	Extra map[string]jsontext.Value `json:",embed"`
}

// KeyScope says among whom an idempotency key is shared. The zero value means ScopeActor.
type KeyScope string

// The scopes of a key.
const (
	ScopeActor   KeyScope = "actor"
	ScopeSession KeyScope = "session"
	ScopeGlobal  KeyScope = "global"
)

// Priority orders waiting calls. The zero value means PriorityNormal.
type Priority string

// The three priorities; executors share their slots over them by weight, so low never starves.
const (
	PriorityLow    Priority = "low"
	PriorityNormal Priority = "normal"
	PriorityHigh   Priority = "high"
)
