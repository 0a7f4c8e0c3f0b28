package policy

import (
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Set is a parsed policy set: three documents without problems of their own.
type Set struct {
	Roles    []Role
	Lanes    []Lane
	Entries  []Entry
	versions envelope.PolicyVersions

	roles, lanes, registry *tool.Document // for the places of problems that only the manifests show
}

// Versions returns the digests of the documents of the set.
func (s *Set) Versions() envelope.PolicyVersions { return s.versions }

// Role is a role of policy/roles.yaml.
type Role struct {
	ID           string   `json:"role_id"`
	AllowedLanes []string `json:"allowed_lanes"`
}

// Lane is a lane of policy/lanes.yaml.
type Lane struct {
	ID                string     `json:"lane_id"`
	AllowedTools      []string   `json:"allowed_tools"` // tool ids, and beginnings of ids with a *
	RequiredScopeKeys []string   `json:"required_scope_keys,omitzero"`
	ProhibitedFlags   []string   `json:"prohibited_flags,omitzero"` // NAME, tag:NAME or effect:NAME
	Write             bool       `json:"write,omitzero"`
	AllowedRunStates  []RunState `json:"allowed_run_states,omitzero"`
	Runs              string     `json:"runs,omitzero"`  // "implicit" or ""
	Audit             string     `json:"audit,omitzero"` // "strict" or ""
}

// Values of [Lane.Runs] and [Lane.Audit].
const (
	RunsImplicit = "implicit"
	AuditStrict  = "strict"
)

// RunState is the state of a run.
type RunState string

// Values of [RunState].
const (
	RunActive RunState = "active"
	RunPaused RunState = "paused"
	RunClosed RunState = "closed"
)

// Entry is the entry of a tool in tools/tool_registry.yaml.
type Entry struct {
	ToolName          string   `json:"tool_name"`
	Description       string   `json:"description"`
	Enabled           bool     `json:"enabled"`
	Idempotent        bool     `json:"idempotent"`
	TimeoutDefaultMS  int64    `json:"timeout_default_ms"`
	AllowedLanes      []string `json:"allowed_lanes"`
	RequiredScopeKeys []string `json:"required_scope_keys"`
	ProhibitedFlags   []string `json:"prohibited_flags"`
	WriteTargets      []string `json:"write_targets,omitzero"`
	Unsanitized       []string `json:"unsanitized,omitzero"` // JSON pointers, see [Unsanitized]
	Versions          string   `json:"versions,omitzero"`    // range of versions; "" is every version
}
