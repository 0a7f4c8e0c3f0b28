package jsonschema

import (
	"context"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The formats whose values [Schema.Formatted] finds.
const (
	FormatURI     = "uri"
	FormatPath    = "path"
	FormatCommand = "command"
)

// IsGuarded reports whether [Schema.Formatted] finds the values of a format.
func IsGuarded(format string) bool { return slices.Contains(formatNames(), format) }

func formatNames() []string { return []string{FormatURI, FormatPath, FormatCommand} }

// Formatted is a part of a value to which a schema applies one of the formats above, or [FormatName].
type Formatted struct {
	// Pointer leads to the part, or to the member if Value is the name of it. It is cut to about the length that a
	// violation keeps.
	Pointer string
	Format  string
	Value   any // of any type: formats also stand in schemas of lists; of [FormatName] the declared name
}

// Formatted returns each part of the valid value v to which s applies a format above, and each member that differs
// from a declared one by case alone. It returns nothing if [Schema.Accepts] has returned true for v. Alternatives
// count together: if v fits several branches of an anyOf or oneOf, apart from these formats, the formats of all of
// them apply. So no alternative lets through what another one declares. The error means that v has too many ways to
// fit, or that ctx has ended.
func (s *Schema) Formatted(ctx context.Context, v jsontext.Value) (found []Formatted, err error) {
	if s.formats == nil {
		return nil, nil
	}
	doc, err := decodeAny(v)
	if err != nil {
		return nil, err
	}
	root, err := s.formats()
	if err != nil { // cannot be: Compile has compiled the schema
		return nil, err
	}
	w := formatWalk{checker: newChecker(ctx.Err, len(v))}
	if err := bounded(func() { w.visit(appendNode(nil, root), doc) }); err != nil {
		return nil, err
	}
	return w.found, nil
}

// HasFormats reports whether [Schema.Formatted] decodes values.
func (s *Schema) HasFormats() bool { return s.formats != nil }

// mentionsFormat reports whether a decoded schema has one of the formats above at any place, also one that only a
// reference makes part of it.
func mentionsFormat(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		name, _ := v["format"].(string)
		return slices.Contains(formatNames(), name) || slices.ContainsFunc(slices.Collect(maps.Values(v)), mentionsFormat)
	case []any:
		return slices.ContainsFunc(v, mentionsFormat)
	}
	return false
}

// formatWalk finds the formats that apply to one value.
type formatWalk struct {
	*checker
	found []Formatted
}

// visit visits a value, and all values in it, with the schemas that apply to it.
func (w *formatWalk) visit(nodes []*formatNode, v any) {
	nodes = w.closure(nodes, v)
	var names []string
	for _, n := range nodes {
		if n.format != "" && !slices.Contains(names, n.format) {
			names = append(names, n.format)
			w.found = append(w.found, Formatted{w.pointer(), n.format, v})
		}
	}
	switch v := v.(type) {
	case map[string]any:
		w.misnamed(nodes, v)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			at := token{name: name}
			w.below(nodes, at, v[name], func(n *formatNode) []*formatNode { return w.ofMember(n, name) })
			w.below(nodes, at, name, func(n *formatNode) []*formatNode { return n.names })
		}
	case []any:
		for i, item := range v {
			at := token{index: i, item: true}
			w.below(nodes, at, item, func(n *formatNode) []*formatNode { return n.item(i) })
		}
	}
}

// below visits a part of a value with those schemas for it that of returns.
func (w *formatWalk) below(nodes []*formatNode, at token, part any, of func(*formatNode) []*formatNode) {
	w.take(len(nodes))
	var next []*formatNode
	for _, n := range nodes {
		next = append(next, of(n)...)
	}
	if len(next) > 0 {
		w.path = append(w.path, at)
		w.visit(next, part)
		w.path = w.path[:len(w.path)-1]
	}
}

// closure adds to the schemas of a value all schemas that apply to it through them, each once.
func (w *formatWalk) closure(nodes []*formatNode, v any) []*formatNode {
	seen := map[*formatNode]bool{}
	var all []*formatNode
	for len(nodes) > 0 {
		n := nodes[0]
		nodes = nodes[1:]
		if w.take(1); seen[n] {
			continue
		}
		seen[n] = true
		all = append(all, n)
		nodes = append(append(nodes, n.same...), w.chosen(n, v)...)
	}
	return all
}

// formatNode is a part of a schema, reduced to the ways to formats. Nodes without such a way are left out.
type formatNode struct {
	format    string
	same      []*formatNode // apply to the same value
	maybe     []formatChoice
	dependent map[string]*formatNode // apply if the member exists

	members  map[string]*formatNode // nil for a member without formats
	declared names                  // of members
	patterns map[jsonschema.Regexp]*formatNode
	others   []*formatNode // for members that are in neither
	names    []*formatNode // for the names of members

	first []*formatNode // for the first items; nil for an item without formats
	rest  []*formatNode
	each  []*formatNode // for all items
}

// formatChoice is a part of a schema that applies to the same value on a condition.
type formatChoice struct {
	schema          *jsonschema.Schema
	test            *part       // of the schema, after [formatGraph.loosen]
	then, otherwise *formatNode // nil without formats
}

// chosen returns the conditional parts that apply to v.
func (w *formatWalk) chosen(n *formatNode, v any) (all []*formatNode) {
	for _, c := range n.maybe {
		next := c.then
		if !w.valid(c.test, v, nil) {
			next = c.otherwise
		}
		all = appendNode(all, next)
	}
	object, _ := v.(map[string]any)
	w.take(len(n.dependent))
	for name, of := range n.dependent {
		if _, has := object[name]; has {
			all = append(all, of)
		}
	}
	return all
}

// ofMember returns the parts for a member of an object.
func (w *formatWalk) ofMember(n *formatNode, name string) (all []*formatNode) {
	of, named := n.members[name]
	all = appendNode(all, of)
	for pattern, of := range n.patterns {
		w.read(len(name))
		if pattern.MatchString(name) {
			named = true
			all = appendNode(all, of)
		}
	}
	if !named {
		all = append(all, n.others...)
	}
	return all
}

func (n *formatNode) item(i int) (all []*formatNode) {
	if i < len(n.first) {
		return appendNode(slices.Clone(n.each), n.first[i])
	}
	return slices.Concat(n.each, n.rest)
}

// appendNode appends n unless it is nil.
func appendNode(all []*formatNode, n *formatNode) []*formatNode {
	if n == nil {
		return all
	}
	return append(all, n)
}
