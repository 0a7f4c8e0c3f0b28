package tool

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Status says whether a tool may be called. Tools of every status are loaded and listed.
type Status string

// The states of a tool.
const (
	StatusActive     Status = "active"
	StatusPlanned    Status = "planned"
	StatusDeprecated Status = "deprecated"
	StatusDisabled   Status = "disabled"
)

// Manifest is one tool.yaml, decoded and checked. It is immutable after loading and safe for
// concurrent use.
type Manifest struct {
	ToolID      string           `json:"tool_id"`
	Name        string           `json:"name"` // in MCP, see envelope.FunctionNames; "" for the one that the id gives
	Semver      string           `json:"semver"`
	Digest      string           `json:"-"` // "sha256:…" over the manifest, its schemas and its program
	Owner       string           `json:"owner"`
	Title       string           `json:"title"`
	Description string           `json:"description"`
	Tags        []string         `json:"tags"`
	Status      Status           `json:"status"`
	Class       call.EffectClass `json:"-"` // of its effect: what may be done with its calls after a crash
	// Listed is the tool as the MCP server lists it from which it was imported; nil for any other tool.
	Listed     *envelope.Listed     `json:"-"`
	Effect     string               `json:"determinism"` // as written: pure, Pure, IdempotentWrite, …
	Pool       string               `json:"pool"`        // executor pool, "default" unless named
	Transport  string               `json:"transport"`
	Endpoint   Endpoint             `json:"-"`
	Functions  map[string]*Function `json:"-"`
	Capability Capabilities         `json:"capabilities"`
	Security   Security             `json:"security"`
	Limits     envelope.ToolLimits  `json:"limits"`
	Retention  time.Duration        `json:"-"` // how long outcomes are kept; 24 h unless named
	Errors     map[string]ErrorSpec `json:"-"`
	ErrorNames []string             `json:"-"` // as they were declared, one after the other
	Notes      Notes                `json:"notes"`
	// AcceptRerun is accept_rerun_after_power_loss: the owner accepts that a deployment that
	// does not fsync may run a side-effectful tool again after a power cut.
	AcceptRerun bool   `json:"accept_rerun_after_power_loss"`
	Dir         string `json:"-"` // the folder of the manifest; process commands are relative to it
	programs    []program
}

// Callable says whether calls of the tool may be admitted: planned and disabled tools are only
// listed.
func (m *Manifest) Callable() bool { return m.Status == StatusActive || m.Status == StatusDeprecated }

// Function returns the function named fn.
func (m *Manifest) Function(fn string) (*Function, bool) {
	f, ok := m.Functions[fn]
	return f, ok
}

// Function is one function of a tool with its schemas, compiled.
type Function struct {
	Name        string
	Description string
	Request     *jsonschema.Schema
	Response    *jsonschema.Schema
	Examples    []Example
}

// Example is a request and, where it is stable, its response; contract tests run them.
type Example struct {
	Name   string         `json:"name"`
	Input  jsontext.Value `json:"input"`
	Output jsontext.Value `json:"output"`
}

// Capabilities a tool declares.
type Capabilities struct {
	FS           []string `json:"fs"`
	NetAllowlist []string `json:"net_allowlist"`
	Env          []string `json:"env"`
	Streaming    bool     `json:"streaming"` // without it what a tool emits while it runs goes nowhere
	DryRun       bool     `json:"dry_run"`
	Lookup       bool     `json:"lookup"`
}

// Security is whom a tool is for.
type Security struct {
	RequiredScopes []string `json:"required_scopes"` // a caller needs all of them
}

// Notes are remarks that the page of contracts has in parentheses behind what they are about.
type Notes struct {
	Status    string `json:"status"`
	Transport string `json:"transport"`
	Endpoint  string `json:"endpoint"`
}

// ErrorSpec maps a tool's own error name to the taxonomy.
type ErrorSpec struct {
	Name       string              `json:"code"` // as the tool says it, for example fetch_failed
	Class      envelope.ErrorClass `json:"class"`
	HTTPStatus int                 `json:"http_status"`
	Message    string              `json:"message"`
	Fix        string              `json:"fix"`
}
