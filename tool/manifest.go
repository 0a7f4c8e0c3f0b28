package tool

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/schema"
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

// Transport says which kind of adapter runs a tool.
type Transport string

// The transports.
const (
	TransportProcess Transport = "process"
	TransportNative  Transport = "native"
)

// Manifest is one tool.yaml, decoded and checked. It is immutable after loading and safe for
// concurrent use.
type Manifest struct {
	ToolID      string
	Semver      string
	Digest      string // "sha256:…" over the manifest, its schemas and its program
	Owner       string
	Title       string
	Description string
	Tags        []string
	Status      Status
	Class       call.Class // of its effect: what may be done with its calls after a crash
	Effect      string     // as written: pure, Pure, IdempotentWrite, …
	Pool        string     // executor pool, "default" unless named
	Transport   Transport
	Endpoint    Endpoint
	Functions   map[string]*Function
	Capability  Capabilities
	Limits      question.Limits
	Retention   time.Duration // how long outcomes are kept; 24 h unless named
	Errors      map[string]ErrorSpec
	// AcceptRerun is accept_rerun_after_power_loss: the owner accepts that a deployment that
	// does not fsync may run a side-effectful tool again after a power cut.
	AcceptRerun bool
	Dir         string // the folder of the manifest; process commands are relative to it
	programs    []program
}

// Callable says whether calls of the tool may be admitted: planned and disabled tools are only
// listed.
func (m *Manifest) Callable() bool {
	return m.Status == StatusActive || m.Status == StatusDeprecated
}

// Function returns the function named fn.
func (m *Manifest) Function(fn string) (*Function, bool) {
	f, ok := m.Functions[fn]
	return f, ok
}

// OnlyFunction returns the function of a tool that has exactly one: the default where a caller
// names none.
func (m *Manifest) OnlyFunction() (*Function, bool) {
	if len(m.Functions) != 1 {
		return nil, false
	}
	for _, f := range m.Functions {
		return f, true
	}
	return nil, false
}

// Endpoint says how the tool is reached.
type Endpoint struct {
	Command []string          // process: program and arguments, never through a shell
	Env     map[string]string // process: literal variables, besides capabilities.env
	Native  string            // native: the name it was registered under
}

// Function is one function of a tool with its schemas, compiled.
type Function struct {
	Name        string
	Description string
	Request     *schema.Schema
	Response    *schema.Schema
	Examples    []Example
}

// Example is a request and, where it is stable, its response; contract tests run them.
type Example struct {
	Name   string
	Input  jsontext.Value
	Output jsontext.Value
}

// Capabilities a tool declares (000 §1).
type Capabilities struct {
	FS           []string
	NetAllowlist []string
	Env          []string
	Streaming    bool // without it what a tool emits while it runs goes nowhere
	DryRun       bool
	Lookup       bool
}

// ErrorSpec maps a tool's own error name to the taxonomy (000 §5, 001 errors).
type ErrorSpec struct {
	Name       string // as the tool says it, for example fetch_failed
	Class      envelope.Class
	HTTPStatus int
	Message    string
	Fix        string
}
