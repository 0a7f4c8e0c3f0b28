package envelope

import "github.com/go-json-experiment/json/jsontext"

// Request asks for one call of one function of a tool. The decoders refuse unknown members, except in context and
// constraints.retry_policy, which keep them in Extra and write them again. docs/wire.md describes all members.
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

// RequestContext holds the caller of a request and its trace, session, run and lane. A tool gets only the members that
// its manifest lists. MCPMeta and MCPInput are for the server of an MCP tool, which gets them whatever the manifest
// lists: MCPMeta is an object, the _meta of an MCP client. Extra holds unknown members, which no tool gets. They count
// towards MaxHead, MaxHeadValues and the nesting depth, but are part of neither [Fingerprint] nor [CallKeyID].
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
	MCPMeta      jsontext.Value    `json:"mcp_meta,omitzero"`
	MCPInput     *MCPInput         `json:"mcp_input,omitzero"`

	Extra map[string]jsontext.Value `json:",embed"`
}

// Constraints holds the limits and the key of one call. TimeoutMS is the time in milliseconds from receipt of the
// request, DeadlineUnixMS an absolute time in bus time. The deadline is the earliest of both and of the maximum timeout
// of the tool.
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

// RetryPolicy configures the retries of the client. The n-th pause is base_ms * backoff_multiplier^(n-1), at most
// cap_ms. With jitter "full", the pause is a random part of that. If jitter_percent is set, a random addition of up to
// that percentage is used instead. Extra holds unknown members, which have no effect.
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

// KeyScope is the scope in which an idempotency key is unique: requests with equal keys in the same scope are one call.
// The zero value means ScopeActor.
type KeyScope string

// Values of [KeyScope]: the requests of one actor, of one session, or of the whole tenant.
const (
	ScopeActor   KeyScope = "actor"
	ScopeSession KeyScope = "session"
	ScopeGlobal  KeyScope = "global"
)

// Priority is the priority of a call among the waiting calls of its pool. The zero value means PriorityNormal.
type Priority string

// Values of [Priority]. Executors share their slots among them by weight, so low never starves.
const (
	PriorityLow    Priority = "low"
	PriorityNormal Priority = "normal"
	PriorityHigh   Priority = "high"
)
