package jsonschema

import (
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Unformatted returns the JSON pointers of members in s that may be any string, or a list of such. named is true for
// their names, and no format of [Schema.Formatted] applies to them. The pointers are sorted.
func (s *Schema) Unformatted(named func(name string) bool) (pointers []string, err error) {
	_, g, err := formatsOf(unnamed, s.whole)
	if err != nil {
		return nil, err
	}
	for _, part := range g.parts {
		for name, of := range part.Properties {
			if named(name) && !g.holds[of] && isText(of, map[*jsonschema.Schema]bool{}) {
				_, at, _ := strings.Cut(of.Location, "#")
				pointers = append(pointers, outOfFragment(at))
			}
		}
	}
	slices.Sort(pointers)
	return slices.Compact(pointers), nil
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
