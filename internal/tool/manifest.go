package tool

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Status says whether a tool may be called. Tools of every status are loaded and listed. See [Manifest.Callable].
type Status string

// The states of a tool.
const (
	StatusActive     Status = "active"
	StatusPlanned    Status = "planned"
	StatusDeprecated Status = "deprecated"
	StatusDisabled   Status = "disabled"
)

// Manifest is one decoded and checked tool.yaml. It is immutable after loading and safe for concurrent use.
type Manifest struct {
	ToolID string `json:"tool_id"`
	Name   string `json:"mcp_name"` // name in MCP; if "", envelope.FunctionNames makes one from the id
	Semver string `json:"semver"`
	// Digest is the build digest, "sha256:…" of the manifest, the schemas and the program.
	Digest string `json:"-"`
	// Artifact is the digest of the program or container as the manifest declares it, or "".
	Artifact string `json:"digest"`
	// Actual is the SHA-256 of the program if Artifact is another SHA-256: then no call runs. Otherwise it is "".
	Actual      string           `json:"-"`
	Owner       string           `json:"owner"`
	Title       string           `json:"title"`
	Description string           `json:"description"`
	Tags        []string         `json:"tags"`
	Status      Status           `json:"status"`
	Class       call.EffectClass `json:"-"` // effect class: may a call run again after a crash
	// Listed is the definition of an imported tool as its MCP server lists it; nil for any other tool.
	Listed *envelope.Listed `json:"-"`
	// ServerVersion is the version of the MCP server that the tool was imported from, or "".
	ServerVersion string   `json:"server_version"`
	Effect        string   `json:"determinism"` // as written: pure, Pure, IdempotentWrite, …
	Pool          string   `json:"pool"`        // executor pool; default DefaultPool
	Transport     string   `json:"transport"`
	Endpoint      Endpoint `json:"-"`
	// Functions holds the declared functions, or one function named envelope.AnyFunction that stands for every name.
	Functions map[string]*Function `json:"-"`
	ReadOnly  bool                 `json:"read_only"` // the tool changes nothing, but is not pure
	// KeyRequirement is "required" if each request needs an idempotency key.
	KeyRequirement string `json:"idempotency_key_requirement"`
	// Whole is the manifest as a JSON object with canonical keys and no defaults, without its endpoint.
	Whole jsontext.Value `json:"-"`
	// DeclaredOnly holds the names of the fields in the manifest that have no effect yet, such as limits.memory_mb_max.
	DeclaredOnly []string            `json:"-"`
	Capability   Capabilities        `json:"capabilities"`
	Context      []string            `json:"context"` // members of the request's context that the tool gets
	Security     Security            `json:"security"`
	Limits       envelope.ToolLimits `json:"limits"`
	// ConcurrencyGiven is true if the manifest has limits.concurrency_max, so that no default may exceed it.
	ConcurrencyGiven bool                 `json:"-"`
	Retention        time.Duration        `json:"-"` // retention of outcomes; default 24 h
	Errors           map[string]ErrorSpec `json:"-"`
	ErrorNames       []string             `json:"-"` // names of Errors in the order of the manifest
	Notes            Notes                `json:"notes"`
	// Metrics, Attributes and Events are the names of what the tool may report of itself.
	Metrics    []string `json:"metrics"`
	Attributes []string `json:"trace_attributes"`
	Events     []string `json:"event_names"`
	Tier       string   `json:"tier"` // T1 to T4, or ""
	// AcceptRerun is true if the owner accepts that a deployment without fsync may run a side-effectful tool again after a
	// power cut.
	AcceptRerun bool   `json:"accept_rerun_after_power_loss"`
	Dir         string `json:"-"` // absolute folder of the manifest; "" if embedded
	// Missing is the name of the program if the manifest names none and the default one does not exist. Then no call runs.
	Missing  string `json:"-"`
	programs []*program
	program  place    // of the program in the manifest
	lost     *Problem // the program that an interpreter runs is missing, or nil
}

// Callable reports whether calls of the tool may be admitted. Planned and disabled tools are only listed.
func (m *Manifest) Callable() bool { return m.Status == StatusActive || m.Status == StatusDeprecated }

// Function returns the function named fn. A tool without declared functions has a function of every name.
func (m *Manifest) Function(fn string) (*Function, bool) {
	if every, ok := m.Functions[envelope.AnyFunction]; ok {
		return every, true
	}
	f, ok := m.Functions[fn]
	return f, ok
}

// Function is one function of a tool with its compiled schemas.
type Function struct {
	Name        string
	Description string
	Request     *jsonschema.Schema
	Response    *jsonschema.Schema
	Examples    []Example
}

// Example is an input and, if they are always the same, its output or its error. Loading checks it; no command runs it.
type Example struct {
	Name   string         `json:"name"`
	Fn     string         `json:"fn"` // of a tool without declared functions; "" means envelope.DefaultFunction
	Input  jsontext.Value `json:"input"`
	Output jsontext.Value `json:"output"`
	Error  string         `json:"error"` // name of a declared error, or a code of the taxonomy
}

// Capabilities are the capabilities that a manifest declares.
type Capabilities struct {
	FS           []string `json:"fs"`
	NetAllowlist []string `json:"net_allowlist"`
	Env          []string `json:"env"`
	Streaming    bool     `json:"streaming"` // if false, chunks of a running tool are dropped
	DryRun       bool     `json:"dry_run"`
	Lookup       bool     `json:"lookup"`
}

// Security restricts who may call a tool.
type Security struct {
	RequiredScopes []string `json:"required_scopes"` // the caller needs all of them
}

// Notes are remarks that the generated page of contracts shows in parentheses after the status, transport and endpoint.
type Notes struct {
	Status    string `json:"status"`
	Transport string `json:"transport"`
	Endpoint  string `json:"endpoint"`
}

// ErrorSpec maps a tool's own error name to the taxonomy.
type ErrorSpec struct {
	Name       string              `json:"code"` // as the tool writes it, for example fetch_failed
	Class      envelope.ErrorClass `json:"class"`
	HTTPStatus int                 `json:"http_status"`
	Message    string              `json:"message"`
	Fix        string              `json:"fix"`
}
