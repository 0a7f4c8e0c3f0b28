package gen

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Format is an output format.
type Format struct {
	Name   string // name of the command
	Ending string // extension of files
	Short  string // help text of the command
	Write  func(*tool.Set) ([]byte, error)
}

// Formats returns all formats, sorted by name.
func Formats() []Format {
	return []Format{
		{"alerts", ".yml", "Write alerts for Prometheus, from the tiers and objectives of tools", Alerts},
		{"contracts", ".md", "Write the page of contracts, for people", Contracts},
		{"jsonschema", ".json", "Write the JSON Schemas of all inputs and outputs, in one document", JSONSchema},
		{"mcp", ".json", "Write the definitions that MCP clients see", MCP},
		{"openapi", ".json", "Write an OpenAPI 3.1 document of the tools as HTTP has them", OpenAPI},
	}
}

// MCP returns the definitions of all functions as the MCP gateway lists them.
func MCP(r *tool.Set) ([]byte, error) {
	shown := []any{}
	for _, d := range mcp.Define(described(r)) {
		shown = append(shown, d.Shown)
	}
	return document(map[string]any{"tools": shown})
}

// JSONSchema returns one document whose $defs hold the schema of each input and output. Each schema has its own $id.
func JSONSchema(r *tool.Set) ([]byte, error) {
	all := map[string]jsontext.Value{}
	for f := range functions(r) {
		for what, s := range map[string]*jsonschema.Schema{"request": f.Request, "response": f.Response} {
			placed, err := f.placed(what, s)
			if err != nil {
				return nil, err
			}
			all[f.tool.ToolID+"/"+f.Name+"/"+what] = placed
		}
	}
	return document(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "toolbus://tools/", "$defs": all,
	})
}

// function is one function of a tool.
type function struct {
	*tool.Function
	tool *tool.Manifest
	path string // the id of the tool, with the name of the function if the tool has several
	name string // MCP name of the function
}

// functions iterates over the functions of all tools, sorted by tool id and function name.
func functions(r *tool.Set) func(yield func(function) bool) {
	names := envelope.FunctionNames(described(r), envelope.MCPSearchTool, envelope.MCPCallTool)
	return func(yield func(function) bool) {
		for _, m := range r.List() {
			for _, fn := range slices.Sorted(maps.Keys(m.Functions)) {
				call := envelope.NameToCall(fn)
				f := function{m.Functions[fn], m, m.ToolID, names[envelope.FunctionID{Tool: m.ToolID, Fn: call}]}
				if len(m.Functions) > 1 {
					f.path += "." + fn
				}
				if !yield(f) {
					return
				}
			}
		}
	}
}

// described returns the descriptions that dispatchers send to callers.
func described(r *tool.Set) (all []envelope.ToolInfo) {
	for _, id := range r.IDs() {
		of, _ := r.Describe(envelope.DescribeRequest{Tool: id})
		all = append(all, of...)
	}
	return all
}

// request returns the schema of the input. For an imported tool it is the schema of the MCP server.
func (f function) request() (jsontext.Value, error) {
	if f.tool.Listed == nil || f.tool.Listed.Methods {
		return f.Request.Whole(), nil
	}
	var listed struct {
		InputSchema jsontext.Value `json:"inputSchema"`
	}
	if err := json.Unmarshal(f.tool.Listed.Tool, &listed); err != nil || listed.InputSchema == nil {
		return f.Request.Whole(), err
	}
	return listed.InputSchema, nil
}

// placed returns a schema for inclusion in a document with other schemas.
func (f function) placed(what string, s *jsonschema.Schema) (jsontext.Value, error) {
	return s.Within("toolbus://" + subjects.Token(f.tool.ToolID) + "." + subjects.Token(f.Name) + "." + what + "/")
}

// document encodes v as an indented JSON document.
func document(v any) ([]byte, error) {
	text, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
	return append(text, '\n'), err
}
