package jsonschema

import (
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// FormatName is the format of a member whose name is not declared, but differs from a declared one by case alone. Go's
// encoding/json, for example, takes such a member for the declared one, whose schema the value has not passed.
const FormatName = "name"

// names are the declared names of the members of an object, by their folded form.
type names map[string]string

// newNames returns the names that are the keys of a map. It returns nil without any.
func newNames[T any](declared map[string]T) names {
	if len(declared) == 0 {
		return nil
	}
	all := make(names, len(declared))
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		all[fold(name)] = name
	}
	return all
}

// fold returns a name whose runes are each the smallest of those that differ by case alone (Unicode simple folding, as
// in [strings.EqualFold]).
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, name)
}

// has reports whether an undeclared name differs from a declared one by case alone. It allocates nothing for short
// names of ASCII, whose capital letters are the smallest.
func (n names) has(name []byte) bool {
	var short [64]byte
	if len(n) == 0 {
		return false
	}
	if len(name) > len(short) || slices.ContainsFunc(name, func(c byte) bool { return c >= utf8.RuneSelf }) {
		_, ok := n[fold(string(name))]
		return ok
	}
	for i, c := range name {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		short[i] = c
	}
	_, ok := n[string(short[:len(name)])]
	return ok
}

// declaresNames reports whether a decoded schema has an object with declared members that may have others, too.
func declaresNames(doc any) (found bool) {
	Walk(doc, func(_ string, members map[string]any) {
		found = found || members["properties"] != nil && members["additionalProperties"] != false
	})
	return found
}

// misnamed notes the members of an object that differ from a declared one by case alone.
func (w *formatWalk) misnamed(nodes []*formatNode, object map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		w.take(2 * len(nodes))
		if slices.ContainsFunc(nodes, func(n *formatNode) bool { return n.declares(name) }) {
			continue
		}
		for _, n := range nodes {
			if declared, ok := n.declared[fold(name)]; ok {
				w.path = append(w.path, token{name: name})
				w.found = append(w.found, Formatted{w.pointer(), FormatName, declared})
				w.path = w.path[:len(w.path)-1]
				break
			}
		}
	}
}

// declares reports whether n has a schema for the members with a name.
func (n *formatNode) declares(name string) bool {
	_, ok := n.members[name]
	return ok
}
