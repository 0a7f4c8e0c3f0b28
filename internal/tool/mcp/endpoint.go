package mcp

import (
	"cmp"
	_ "embed" // the schema of endpoints
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Transport is what manifests call this transport.
const Transport = "mcp"

//go:embed endpoint.json
var endpointSchema string

// Endpoint is the endpoint of a tool of an MCP server.
type Endpoint struct {
	Server string `json:"server"` // by its name in servers.json
	Tool   string `json:"tool"`   // as the server calls it
	Output Output `json:"output"`
	// Definition is the [Digest] of the tool's definition that was approved; "" takes any.
	Definition  string      `json:"definition"`
	KeyArgument string      `json:"key_argument"` // the argument that is given the idempotency key
	Invocation  bool        `json:"invocation"`   // the server is told who calls, and all else that programs are told
	Lookup      *Lookup     `json:"lookup"`
	Errors      []ErrorRule `json:"errors"`
}

// Approved implements [tool.Defined].
func (e Endpoint) Approved() (server, definition string) { return e.Server, e.Definition }

// Output says what of a result is the output of a call.
type Output string

// The outputs.
const (
	// OutputStructured is the structured content, or else the JSON that the only text holds.
	OutputStructured Output = "structured"
	// OutputWhole is an object with content and, where there is one, structuredContent, as MCP has them.
	OutputWhole Output = "whole"
)

// Lookup is the tool of the same server that says whether the effect of an idempotency key took place. What it answers
// is the output of that call; a null, no content at all, or io.toolbus/absent in its _meta says that it did not.
type Lookup struct {
	Tool     string `json:"tool"`
	Argument string `json:"argument"` // that is given the key
}

// ErrorRule gives failed results whose text it matches the name of an error that the manifest declares.
type ErrorRule struct {
	Match string `json:"match"` // a regular expression (RE2)
	Code  string `json:"code"`

	match *regexp.Regexp
}

// DefinitionFile is the file of the tool's folder that holds the definition whose digest the endpoint has.
const DefinitionFile = "definition.json"

// Describe returns what package tool needs in order to read manifests of this transport.
func Describe() tool.Transport {
	return tool.Transport{Name: Transport, Schema: endpointSchema, Endpoint: decode}
}

func decode(m *tool.Manifest, raw jsontext.Value, report func(at, message, hint string)) tool.Endpoint {
	var e Endpoint
	if raw == nil {
		report("/endpoint", "a tool of an MCP server needs an endpoint", "endpoint: {server: NAME, tool: NAME}")
		return e
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		report("/endpoint", err.Error(), "endpoint: {server: NAME, tool: NAME}")
	}
	e.Output = cmp.Or(e.Output, OutputStructured)
	if m.Capability.Lookup && e.Lookup == nil {
		report("/capabilities/lookup", "no tool of the server is named that looks up", "set endpoint.lookup, or leave it out")
	}
	for i, rule := range e.Errors {
		var err error
		if e.Errors[i].match, err = regexp.Compile(rule.Match); err != nil {
			report(fmt.Sprintf("/endpoint/errors/%d/match", i), err.Error(), "it is a regular expression, RE2")
		}
		if _, declared := m.Errors[rule.Code]; !declared {
			report(fmt.Sprintf("/endpoint/errors/%d/code", i), fmt.Sprintf("no error %q is declared", rule.Code),
				"declare it below errors")
		}
	}
	return e
}

// Name is the name of the server.
func (e Endpoint) Name() string { return e.Server }

// Files is the definition that was approved.
func (e Endpoint) Files() []tool.File {
	if e.Definition == "" {
		return nil
	}
	return []tool.File{{Name: DefinitionFile, At: "/endpoint/definition"}}
}
