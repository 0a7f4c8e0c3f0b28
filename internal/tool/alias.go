package tool

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// alias is another key for a field of the manifest: a camelCase key of 002, or a key of the registry entry of 003.
type alias struct {
	from, to jsontext.Pointer
	values   map[string]any // the value of the field for each value of the alias, true or false; nil if they are equal
}

// aliasesOf returns the aliases that a schema declares. Those of an object come before those of its members.
func aliasesOf(schema map[string]any) (all []alias) {
	visitFields("", schema, func(at jsontext.Pointer, rule map[string]any) {
		declared, _ := rule["x-aliases"].([]any)
		for _, one := range declared {
			of, _ := one.(map[string]any)
			a := alias{from: jsontext.Pointer(textOf(of["at"])), to: at}
			a.values, _ = of["values"].(map[string]any)
			all = append(all, a)
		}
	})
	return all
}

// visitFields calls visit for each member that a schema of an object names, and for the members of these, parents
// first and in the order of their names.
func visitFields(at jsontext.Pointer, schema map[string]any, visit func(at jsontext.Pointer, rule map[string]any)) {
	properties := member(schema, "properties")
	for _, name := range sortedKeys(properties) {
		rule, below := member(properties, name), at.AppendToken(name)
		visit(below, rule)
		visitFields(below, rule, visit)
	}
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

// unalias renames each alias in the manifest to its field, and reports whether there was one. An alias beside its field
// is a problem.
func (s *source) unalias(all []alias) (renamed bool) {
	for _, a := range all {
		where, written := s.keys[a.from]
		if !written {
			continue
		}
		renamed = true
		to := s.meant(a)
		switch _, both := s.keys[to]; {
		case both:
			s.report(where, fmt.Sprintf("%q and %q are the same field", s.named(a.from), s.named(to)), "keep "+named(to))
			s.leaveOut(a.from)
		case s.room(to.Parent(), where):
			s.move(a, to)
		default: // the value at the parent is no mapping, which is a problem of its own
			s.leaveOut(a.from)
		}
	}
	return renamed
}

// meant returns the field that an alias means. Builds before mcp_name called that field name, beside tool_id. A name
// with a point or a colon is no name in MCP: there the author meant the tool id.
func (s *source) meant(a alias) jsontext.Pointer {
	_, hasID := s.keys["/tool_id"]
	if a.from == "/name" && hasID && !strings.ContainsAny(textOf(s.at(a.from)), ".:") {
		return "/mcp_name"
	}
	return a.to
}

// room makes a mapping at a pointer that the manifest does not have, and reports whether the pointer has a mapping.
func (s *source) room(at jsontext.Pointer, where place) bool {
	if _, has := s.keys[at]; at != "" && !has {
		if in, ok := s.at(at.Parent()).(map[string]any); ok {
			in[at.LastToken()], s.values[at], s.keys[at] = map[string]any{}, where, where
		}
	}
	_, ok := s.at(at).(map[string]any)
	return ok
}

// move moves the value of an alias to its field, with all positions.
func (s *source) move(a alias, to jsontext.Pointer) {
	value := s.at(a.from)
	s.leaveOut(a.from)
	if a.values != nil {
		boolean, ok := value.(bool)
		if !ok {
			s.fail(a.from, named(a.from)+" must be true or false", kinds["boolean"].hint)
			return
		}
		value = a.values[strconv.FormatBool(boolean)]
	}
	s.at(to.Parent()).(map[string]any)[to.LastToken()] = value
	s.written[to] = a.from
	rebase(s.keys, a.from, to)
	rebase(s.values, a.from, to)
	rebase(s.bad, a.from, to)
}

// rebase moves the entries of a pointer and of all pointers below it.
func rebase[V any](all map[jsontext.Pointer]V, from, to jsontext.Pointer) {
	for at, v := range maps.Clone(all) {
		if from.Contains(at) {
			delete(all, at)
			all[to+at[len(from):]] = v
		}
	}
}

// named formats a pointer for people, with the key that the author wrote.
func (s *source) named(at jsontext.Pointer) string {
	for to := at; to != ""; to = to.Parent() {
		if from, ok := s.written[to]; ok {
			return named(from + at[len(to):])
		}
	}
	if at == "" {
		return "the " + s.words.name
	}
	return named(at)
}
