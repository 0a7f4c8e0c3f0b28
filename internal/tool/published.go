package tool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// SchemaID is the address of the published schema. Nothing is fetched from it.
const SchemaID = "toolbus://schemas/tool.yaml.json"

// Published returns the JSON Schema (2020-12) of tool.yaml for editors and other validators: that of the loader, with
// the endpoints of all transports, and with the aliases as fields of their own. It does not have the rules that compare
// fields.
func Published(transports ...Transport) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(manifestSchema, &doc); err != nil {
		return nil, err
	}
	doc["$id"] = SchemaID
	rules, names := []any{}, []any{}
	for _, t := range transports {
		var endpoint any
		if err := json.Unmarshal([]byte(t.Schema), &endpoint); err != nil {
			return nil, fmt.Errorf("schema of endpoints of transport %q: %w", t.Name, err)
		}
		names = append(names, t.Name)
		if t.Text != nil {
			endpoint = map[string]any{"anyOf": []any{endpoint, map[string]any{"type": "string", "pattern": `\S`}}}
		}
		rules = append(rules, endpointRule(t.Name, endpoint))
	}
	member(member(doc, "properties"), "transport")["enum"] = names
	rules = append(append(rules, publishAliases(doc)...), nameRules(doc)...)
	doc["allOf"] = rules
	text, err := json.Marshal(doc, json.Deterministic(true), jsontext.WithIndent("  "))
	return append(text, '\n'), err
}

// endpointRule returns the rule for the endpoints of one transport. A manifest without a transport has the default one.
func endpointRule(transport string, endpoint any) map[string]any {
	when := map[string]any{"properties": map[string]any{"transport": map[string]any{"const": transport}}}
	if transport != defaultTransport {
		when["required"] = []any{"transport"}
	}
	return map[string]any{"if": when, "then": map[string]any{"properties": map[string]any{"endpoint": endpoint}}}
}

// publishAliases adds the aliases to a schema as fields, and returns the rules about them: a field is not given twice,
// and a required one is given under one of its names.
func publishAliases(doc map[string]any) (rules []any) {
	names := map[jsontext.Pointer][]jsontext.Pointer{} // all names of a field that has aliases
	fields := []jsontext.Pointer{}
	for _, a := range aliasesOf(doc) {
		if names[a.to] == nil {
			names[a.to], fields = []jsontext.Pointer{a.to}, append(fields, a.to)
		}
		names[a.to] = append(names[a.to], a.from)
		addAlias(doc, a)
	}
	required, _ := doc["required"].([]any)
	doc["required"] = slices.DeleteFunc(slices.Clone(required), func(name any) bool {
		return names[jsontext.Pointer("").AppendToken(textOf(name))] != nil
	})
	for _, at := range fields {
		if at.Parent() == "" && slices.Contains(required, any(at.LastToken())) {
			rules = append(rules, map[string]any{"anyOf": present(names[at]...)})
		}
		rules = append(rules, notTwice(names[at])...)
	}
	return rules
}

// nameRules returns the rules about name, which beside tool_id is the name in MCP.
func nameRules(doc map[string]any) []any {
	properties := member(doc, "properties")
	properties["name"] = map[string]any{
		"type": "string", "description": "Another key for tool_id; beside it, for mcp_name.",
	}
	ref := func(field string) map[string]any {
		return map[string]any{"properties": map[string]any{"name": map[string]any{"$ref": "#/properties/" + field}}}
	}
	return []any{
		map[string]any{"if": present("/tool_id")[0], "then": ref("mcp_name"), "else": ref("tool_id")},
		map[string]any{"not": map[string]any{"allOf": present("/tool_id", "/name", "/mcp_name")}},
	}
}

// notTwice returns rules against two names of one field. A name beside a tool_id is the name in MCP.
func notTwice(names []jsontext.Pointer) (rules []any) {
	for i, one := range names {
		for _, other := range names[i+1:] {
			if one != "/tool_id" || other != "/name" {
				rules = append(rules, map[string]any{"not": map[string]any{"allOf": present(one, other)}})
			}
		}
	}
	return rules
}

// addAlias adds one alias to the schema that has its field.
func addAlias(doc map[string]any, a alias) {
	in := doc
	for token := range a.from.Parent().Tokens() {
		in = member(member(in, "properties"), token)
	}
	rule := map[string]any{"description": "Another key for " + named(a.to) + "."}
	if a.values == nil {
		rule["$ref"] = "#" + strings.ReplaceAll(string(a.to), "/", "/properties/")
	} else {
		rule["type"] = "boolean"
	}
	member(in, "properties")[a.from.LastToken()] = rule
}

// present returns one schema for each pointer, which holds if there is a value.
func present(all ...jsontext.Pointer) (schemas []any) {
	for _, at := range all {
		schemas = append(schemas, presentAt(slices.Collect(at.Tokens())))
	}
	return schemas
}

func presentAt(tokens []string) map[string]any {
	rule := map[string]any{"type": "object", "required": []any{tokens[0]}}
	if len(tokens) > 1 {
		rule["properties"] = map[string]any{tokens[0]: presentAt(tokens[1:])}
	}
	return rule
}
