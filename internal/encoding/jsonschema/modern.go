package jsonschema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Modernize converts a decoded schema that stands alone to dialect 2020-12. The schema, or parts of it, may use
// draft-04, -06, -07 or 2019-09. The meaning stays the same, except for keywords next to a $ref, which older drafts
// ignore. OpenAPI documents support only 2020-12.
func Modernize(v any) {
	Repoint(v, func(pointer string) string { return "#" + modernPointer(pointer) })
	Walk(v, func(_ string, members map[string]any) {
		delete(members, "$schema")
		delete(members, "$recursiveAnchor") // Alone has replaced all references to it
		tuple(members)
		bound(members, "minimum", "exclusiveMinimum")
		bound(members, "maximum", "exclusiveMaximum")
		dependencies(members)
		if defs, ok := members["definitions"].(map[string]any); ok {
			into(members, "$defs", defs)
			delete(members, "definitions")
		}
	})
}

// tuple converts a list of schemas for the first items of an array.
func tuple(members map[string]any) {
	if first, is := members["items"].([]any); is {
		members["prefixItems"] = first
		delete(members, "items")
		if rest, said := members["additionalItems"]; said {
			members["items"] = rest
		}
	}
	delete(members, "additionalItems")
}

// bound converts a limit of draft-04, where a boolean keyword makes the limit exclusive.
func bound(members map[string]any, limit, exclusive string) {
	only, is := members[exclusive].(bool)
	if !is {
		return
	}
	delete(members, exclusive)
	if number, ok := members[limit].(json.Number); ok && only {
		members[exclusive] = number
		delete(members, limit)
	}
}

func dependencies(members map[string]any) {
	all, _ := members["dependencies"].(map[string]any)
	for name, of := range all {
		keyword := "dependentSchemas"
		if _, names := of.([]any); names {
			keyword = "dependentRequired"
		}
		into(members, keyword, map[string]any{name: of})
	}
	delete(members, "dependencies")
}

// into adds members to the object of a keyword.
func into(members map[string]any, keyword string, more map[string]any) {
	has, _ := members[keyword].(map[string]any)
	if has == nil {
		has = map[string]any{}
	}
	maps.Copy(has, more)
	members[keyword] = has
}

// modernPointer returns the pointer after Modernize to the same place of a schema.
func modernPointer(pointer string) string {
	tokens := strings.Split(pointer, "/")
	for i := 1; i < len(tokens); i++ {
		switch keyword := tokens[i]; {
		case keyword == "items" && i+1 < len(tokens) && strings.Trim(tokens[i+1], "0123456789") == "":
			tokens[i] = "prefixItems"
			i++
		case keyword == "definitions":
			tokens[i] = "$defs"
			i++
		case keyword == "dependencies":
			tokens[i] = "dependentSchemas"
			i++
		case slices.Contains(schemaMaps, keyword) || keyword != "items" && slices.Contains(schemaLists, keyword):
			i++ // skip the name of a member or the index of an item
		}
	}
	return strings.Join(tokens, "/")
}
