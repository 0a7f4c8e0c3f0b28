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
	ToolID      string           `json:"tool_id"`
	Name        string           `json:"name"` // name in MCP; if "", envelope.FunctionNames makes one from the id
	Semver      string           `json:"semver"`
	Digest      string           `json:"-"` // "sha256:…" of the manifest and the files that it names
	Owner       string           `json:"owner"`
	Title       string           `json:"title"`
	Description string           `json:"description"`
	Tags        []string         `json:"tags"`
	Status      Status           `json:"status"`
	Class       call.EffectClass `json:"-"` // effect class: may a call run again after a crash
	// Listed is the definition of an imported tool as its MCP server lists it; nil for any other tool.
	Listed     *envelope.Listed     `json:"-"`
	Effect     string               `json:"determinism"` // as written: pure, Pure, IdempotentWrite, …
	Pool       string               `json:"pool"`        // executor pool; default DefaultPool
	Transport  string               `json:"transport"`
	Endpoint   Endpoint             `json:"-"`
	Functions  map[string]*Function `json:"-"`
	Capability Capabilities         `json:"capabilities"`
	Context    []string             `json:"context"` // members of the request's context that the tool gets
	Security   Security             `json:"security"`
	Limits     envelope.ToolLimits  `json:"limits"`
	Retention  time.Duration        `json:"-"` // retention of outcomes; default 24 h
	Errors     map[string]ErrorSpec `json:"-"`
	ErrorNames []string             `json:"-"` // names of Errors in the order of the manifest
	Notes      Notes                `json:"notes"`
	// AcceptRerun is true if the owner accepts that a deployment without fsync may run a side-effectful tool again after a
	// power cut.
	AcceptRerun bool   `json:"accept_rerun_after_power_loss"`
	Dir         string `json:"-"` // absolute folder of the manifest; "" if embedded
	programs    []program
}

// Callable reports whether calls of the tool may be admitted. Planned and disabled tools are only listed.
func (m *Manifest) Callable() bool { return m.Status == StatusActive || m.Status == StatusDeprecated }

// Function returns the function named fn.
func (m *Manifest) Function(fn string) (*Function, bool) {
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

// Example is an input and, if the output is stable, its output. Contract tests run examples.
type Example struct {
	Name   string         `json:"name"`
	Input  jsontext.Value `json:"input"`
	Output jsontext.Value `json:"output"`
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
