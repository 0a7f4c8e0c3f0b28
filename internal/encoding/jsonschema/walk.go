package jsonschema

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The keywords whose values are schemas: members of an object, items of a list, or the value itself. Older drafts
// included, since MCP servers use them.
var (
	schemaMaps = []string{
		"$defs", "definitions", "properties", "patternProperties", "dependentSchemas", "dependencies",
	}
	schemaLists = []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"}
	schemaOnes  = []string{
		"items", "additionalItems", "additionalProperties", "contains", "propertyNames", "if", "then", "else", "not",
		"unevaluatedItems", "unevaluatedProperties", "contentSchema",
	}
)

// Holds reports whether the value of a keyword is a schema, or has schemas in it.
func Holds(keyword string) bool {
	return slices.Contains(schemaMaps, keyword) || slices.Contains(schemaLists, keyword) ||
		slices.Contains(schemaOnes, keyword)
}

// Decode returns the JSON text of a schema as Go values. Numbers are json.Number, so that encoding them again changes
// none of them.
func Decode(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// Walk calls visit for a decoded schema and each schema in it, parents first, with the JSON pointer to it. A schema
// that is true or false has no members, and is not visited. visit may change the members.
func Walk(v any, visit func(at string, members map[string]any)) { walk("", v, visit) }

func walk(at string, v any, visit func(at string, members map[string]any)) {
	members, ok := v.(map[string]any)
	if !ok {
		return
	}
	visit(at, members)
	for _, name := range schemaMaps {
		of, _ := members[name].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(of)) {
			walk(at+"/"+name+"/"+escaped(key), of[key], visit)
		}
	}
	for _, name := range schemaLists {
		list, _ := members[name].([]any)
		for i, item := range list {
			walk(at+"/"+name+"/"+strconv.Itoa(i), item, visit)
		}
	}
	for _, name := range schemaOnes {
		walk(at+"/"+name, members[name], visit)
	}
}

// escaped returns a name as a token of a JSON pointer.
func escaped(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// Repoint replaces the JSON pointer of each reference within a decoded schema by what to returns for it. References
// that are not pointers stay.
func Repoint(v any, to func(pointer string) string) {
	Walk(v, func(_ string, members map[string]any) {
		ref, _ := members["$ref"].(string)
		if pointer, local := strings.CutPrefix(ref, "#"); local && (pointer == "" || pointer[0] == '/') {
			members["$ref"] = to(pointer)
		}
	})
}
