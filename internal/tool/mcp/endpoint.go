package mcp

import (
	"cmp"
	_ "embed" // the schema of endpoints
	"fmt"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// Transport is the name of this transport in manifests.
const Transport = "mcp"

//go:embed endpoint.json
var endpointSchema string

// Endpoint is the endpoint of a tool of an MCP server.
type Endpoint struct {
	Server string `json:"server"` // name of the server in servers.json
	Tool   string `json:"tool"`   // name of the tool at the server
	Output Output `json:"output"`
	// Definition is the [Digest] of the approved definition of the tool. If it is "", any definition is accepted.
	Definition  string      `json:"definition"`
	KeyArgument string      `json:"key_argument"` // name of the argument that gets the idempotency key
	Invocation  bool        `json:"invocation"`   // send the request of the process protocol to the server in _meta
	Lookup      *Lookup     `json:"lookup"`
	Errors      []ErrorRule `json:"errors"`
	Coerce      *bool       `json:"coerce"` // see [Endpoint.Coerces]
	// Methods means that each function is the MCP method with its name, with / for _. Then Tool is "".
	Methods bool `json:"methods"`
}

// method returns the method of a function if Methods is true, and "" otherwise.
func (e Endpoint) method(fn string) client.Method {
	if !e.Methods {
		return ""
	}
	return client.MethodOf(fn)
}

// Origin returns mcp, for [tool.Manifest.Origin].
func (Endpoint) Origin() string { return Transport }

// Approved implements [tool.Defined].
func (e Endpoint) Approved() (server, definition string) { return e.Server, e.Definition }

// Coerces implements [tool.Coercing]. Unless the manifest says otherwise, it is true for imported tools, which have a
// definition: their servers take such strings, and models send them.
func (e Endpoint) Coerces() bool {
	if e.Coerce != nil {
		return *e.Coerce
	}
	return e.Definition != ""
}

// Output selects the part of a result that becomes the output of a call.
type Output string

// The outputs.
const (
	// OutputStructured is structuredContent, or, without it, the JSON in the only text block.
	OutputStructured Output = "structured"
	// OutputWhole is the whole result, an object with content and, if the server sent it, structuredContent.
	OutputWhole Output = "whole"
)

// Lookup names the tool of the same server that looks up whether the effect of an idempotency key is committed. Its
// answer is the output of that call. The effect is not committed if the structured content is null, if there is no
// content at all, or if _meta has io.toolbus/absent.
type Lookup struct {
	Tool     string `json:"tool"`
	Argument string `json:"argument"` // argument that gets the idempotency key
}

// ErrorRule maps a failed result whose text matches Match to the error Code, which the manifest declares.
type ErrorRule struct {
	Match string `json:"match"` // regular expression (RE2)
	Code  string `json:"code"`

	match *regexp.Regexp
}

// DefinitionFile is the file in the tool's folder with the approved definition, whose digest the endpoint has.
const DefinitionFile = "definition.json"

// Describe returns what package tool needs in order to read manifests of this transport.
func Describe() tool.Transport {
	return tool.Transport{Name: Transport, Schema: endpointSchema, Text: ofServer, Endpoint: decode}
}

// ofServer returns the endpoint of a tool whose manifest names only its server. The server has it under its id, which
// may have a namespace.
func ofServer(toolID, server string) map[string]any {
	return map[string]any{"server": server, "tool": toolID[strings.LastIndexByte(toolID, ':')+1:]}
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
	if e.Methods {
		e.checkMethods(m, report)
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

// checkMethods reports members that do not fit Methods, and functions that are not methods.
func (e Endpoint) checkMethods(m *tool.Manifest, report func(at, message, hint string)) {
	if e.Tool != "" || e.Definition != "" || e.KeyArgument != "" || e.Lookup != nil {
		report("/endpoint/methods", "methods of a server are not those of one tool",
			"leave out tool, definition, key_argument and lookup")
	}
	for name := range m.Functions {
		if client.MethodOf(name) == "" {
			report("/endpoint/methods", fmt.Sprintf("the function %q is not a method of MCP servers", name),
				"name it as `toolbus tools import-mcp` does, such as resources_read")
		}
	}
}

// Name returns the name of the server.
func (e Endpoint) Name() string { return e.Server }

// Files returns the file with the approved definition, if there is one.
func (e Endpoint) Files() []tool.File {
	if e.Definition == "" {
		return nil
	}
	return []tool.File{{Name: DefinitionFile, At: "/endpoint/definition"}}
}
