package jsonschema

import (
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Unformatted returns the members in s that may be any string, or a list of such, by JSON pointer, with the format that
// is meant. The function meant tells it by the name and the description, or returns "". Members to which a format of
// [Schema.Formatted] applies already are left out. If s itself is for strings, it counts as a member without a name.
func (s *Schema) Unformatted(meant func(name, description string) string) (map[string]string, error) {
	if doc, err := schemaDocument(s.whole); err != nil || !means(doc, meant) {
		return nil, err
	}
	root, g, err := formatsOf(unnamed, s.whole)
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	look := func(name string, of *jsonschema.Schema) {
		format := meant(name, of.Description)
		if format != "" && !g.holds[of] && isText(of, map[*jsonschema.Schema]bool{}) {
			_, at, _ := strings.Cut(of.Location, "#")
			found[outOfFragment(at)] = format
		}
	}
	if root.Types != nil {
		look("", root)
	}
	for _, part := range g.parts {
		for name, of := range part.Properties {
			look(name, of)
		}
	}
	return found, nil
}

// means reports whether a decoded schema may have a member with a meaning and no format. It costs a tenth of
// [formatsOf].
func means(v any, meant func(name, description string) string) bool {
	describes := func(name string, of any) bool {
		members, _ := of.(map[string]any)
		description, _ := members["description"].(string)
		format, _ := members["format"].(string)
		guarded := IsGuarded(format) && members["$ref"] == nil // before 2019-09, a $ref hides what is beside it
		return !guarded && meant(name, description) != ""
	}
	switch v := v.(type) {
	case map[string]any:
		properties, _ := v["properties"].(map[string]any)
		for name, of := range properties {
			if describes(name, of) {
				return true
			}
		}
		return describes("", v) || slices.ContainsFunc(slices.Collect(maps.Values(v)), func(of any) bool {
			return means(of, meant)
		})
	case []any:
		return slices.ContainsFunc(v, func(of any) bool { return means(of, meant) })
	}
	return false
}

// isText reports whether a value of s may be any string, or a list of such.
func isText(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool) bool {
	if s == nil || seen[s] || s.Enum != nil || s.Const != nil {
		return false
	}
	seen[s] = true
	deeper := func(of *jsonschema.Schema) bool { return isText(of, seen) }
	if s.Types == nil {
		of := slices.Concat(only(s.Ref), s.AllOf, s.AnyOf, s.OneOf)
		return len(of) == 0 && (s.Bool == nil || *s.Bool) || slices.ContainsFunc(of, deeper)
	}
	types := s.Types.ToStrings()
	return slices.Contains(types, "string") ||
		slices.Contains(types, "array") && slices.ContainsFunc(slices.Concat(only(s.Items2020), s.PrefixItems,
			schemaOf(s.Items)), deeper)
}
