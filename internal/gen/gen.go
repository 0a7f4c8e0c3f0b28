package gen

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/schema"
	"github.com/seed-018f16cc/toolbus/subjects"
	"github.com/seed-018f16cc/toolbus/tool"
)

// Format is one that tools are written in.
type Format struct {
	Name   string // of the command
	Ending string // of files
	Short  string // what it writes
	Write  func(*tool.Registry) ([]byte, error)
}

// Formats returns all of them.
func Formats() []Format {
	return []Format{
		{"contracts", ".md", "Write the page of contracts, for people", Contracts},
		{"jsonschema", ".json", "Write the JSON Schemas of all inputs and outputs, in one document", JSONSchema},
		{"mcp", ".json", "Write the definitions that MCP clients see", MCP},
		{"openapi", ".json", "Write an OpenAPI 3.1 document of the tools as HTTP has them", OpenAPI},
	}
}

// MCP returns the definitions of all functions as `toolbus mcp` lists them.
func MCP(r *tool.Registry) ([]byte, error) {
	shown := []any{}
	for _, m := range r.List() {
		for _, d := range mcp.Define(described(r, m)) {
			shown = append(shown, d.Shown)
		}
	}
	return document(map[string]any{"tools": shown})
}

// JSONSchema returns one document with the schema of each input and output in its $defs, each of which has an address
// of its own.
func JSONSchema(r *tool.Registry) ([]byte, error) {
	all := map[string]jsontext.Value{}
	for f := range functions(r) {
		for what, s := range map[string]*schema.Schema{"request": f.Request, "response": f.Response} {
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

// function is one of a tool.
type function struct {
	*tool.Function
	tool *tool.Manifest
	name string // that the function has in MCP, and wherever a tool has no functions
}

// functions are those of all tools, by name.
func functions(r *tool.Registry) func(yield func(function) bool) {
	return func(yield func(function) bool) {
		for _, m := range r.List() {
			for i, fn := range slices.Sorted(maps.Keys(m.Functions)) {
				if !yield(function{m.Functions[fn], m, mcp.Define(described(r, m))[i].Shown.Name}) {
					return
				}
			}
		}
	}
}

// described is what callers are told of a tool.
func described(r *tool.Registry, m *tool.Manifest) question.Tool {
	all, _ := r.Describe(question.Describe{Tool: m.ToolID})
	return all[0]
}

// placed is a schema for a place within a document with others.
func (f function) placed(what string, s *schema.Schema) (jsontext.Value, error) {
	return s.Within("toolbus://" + subjects.Token(f.tool.ToolID) + "." + subjects.Token(f.Name) + "." + what + "/")
}

// document is a JSON document for files.
func document(v any) ([]byte, error) {
	text, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
	return append(text, '\n'), err
}
