package jsonschema

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Modernize rewrites a decoded schema that stands alone in the words of 2020-12, whichever of draft-04, -06, -07 and
// 2019-09 it or a part of it is written in. It says the same but for keywords beside a $ref, which older drafts
// ignore. Readers of OpenAPI documents know no other draft.
func Modernize(v any) {
	Repoint(v, func(pointer string) string { return "#" + modernPointer(pointer) })
	Walk(v, func(_ string, members map[string]any) {
		delete(members, "$schema")
		delete(members, "$recursiveAnchor") // nothing that stands alone refers to it
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

// tuple rewrites a list of schemas for the first items of an array.
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

// bound rewrites a bound of draft-04, of which another keyword says whether it is exclusive.
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

// into adds members to those of a keyword.
func into(members map[string]any, keyword string, more map[string]any) {
	has, _ := members[keyword].(map[string]any)
	if has == nil {
		has = map[string]any{}
	}
	maps.Copy(has, more)
	members[keyword] = has
}

// modernPointer returns the pointer to a place of a schema after Modernize.
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
			i++ // the name of a member, or the number of an item
		}
	}
	return strings.Join(tokens, "/")
}
