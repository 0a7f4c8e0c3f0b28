package jsonschema

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// The keywords whose values contain schemas, as members of an object, as items of a list, or as the value itself. They
// include keywords of older drafts, because MCP servers use them.
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

// Holds reports whether the value of a keyword is a schema or contains schemas.
func Holds(keyword string) bool {
	return slices.Contains(schemaMaps, keyword) || slices.Contains(schemaLists, keyword) ||
		slices.Contains(schemaOnes, keyword)
}

// Decode decodes a schema. Numbers become json.Number, so that encoding does not change them.
func Decode(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// Walk calls visit for a decoded schema and each schema in it, parents first, with its JSON pointer. It skips schemas
// that are true or false. visit may change the members.
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

// escaped escapes a name as a token of a JSON pointer.
func escaped(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// Repoint replaces the JSON pointer of each reference in a decoded schema by the result of to. References that are not
// pointers stay.
func Repoint(v any, to func(pointer string) string) {
	Walk(v, func(_ string, members map[string]any) {
		ref, _ := members["$ref"].(string)
		if pointer, local := strings.CutPrefix(ref, "#"); local && (pointer == "" || pointer[0] == '/') {
			members["$ref"] = to(pointer)
		}
	})
}
