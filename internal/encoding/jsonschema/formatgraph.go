package jsonschema

import (
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// formatGraph makes the nodes of a compiled schema. It starts from the parts of a schema as the library has resolved
// them, so that no reference means one thing to the validation and another one here.
//
// Afterwards the compiled schema only tests alternatives: each part accepts at least the values that it accepts in the
// whole schema, whether formats are valid or not. So loosen removes from it what depends on its surroundings (dynamic
// references, unevaluated members and items), and then what would refuse more the more another part accepts: not, if,
// oneOf and maxContains.
type formatGraph struct {
	parts   []*jsonschema.Schema // all, parents first
	holds   map[*jsonschema.Schema]bool
	depends map[*jsonschema.Schema]bool // its answer depends on a format, or on what loosen removes
	nodes   map[*jsonschema.Schema]*formatNode
}

// declares reports whether members of s have schemas of their own.
func declares(s *jsonschema.Schema) bool { return len(s.Properties) > 0 }

// newFormatGraph returns the graph of compiled schemas: those that the roots reach.
func newFormatGraph(roots ...*jsonschema.Schema) *formatGraph {
	g := &formatGraph{nodes: map[*jsonschema.Schema]*formatNode{}}
	g.reach(roots)
	g.holds = g.spread(func(s *jsonschema.Schema) bool { return guarded(s) != "" }, g.positive)
	finds := g.spread(func(s *jsonschema.Schema) bool { return g.holds[s] || declares(s) }, g.positive)
	g.depends = g.spread(func(s *jsonschema.Schema) bool {
		return guarded(s) != "" || s.DynamicRef != nil || s.RecursiveRef != nil ||
			s.UnevaluatedProperties != nil || s.UnevaluatedItems != nil
	}, func(s *jsonschema.Schema) []*jsonschema.Schema { return append(g.positive(s), only(s.Not)...) })
	for _, s := range g.parts {
		if finds[s] {
			g.nodes[s] = &formatNode{format: guarded(s)}
		}
	}
	for s, n := range g.nodes {
		g.fill(n, s)
	}
	return g
}

// guarded returns the format of s if it is one of formatNames.
func guarded(s *jsonschema.Schema) string {
	if s.Format == nil || !IsGuarded(s.Format.Name) {
		return ""
	}
	return s.Format.Name
}

// reach collects all parts that belong to the roots.
func (g *formatGraph) reach(roots []*jsonschema.Schema) {
	known := map[*jsonschema.Schema]bool{}
	for queue := slices.Clone(roots); len(queue) > 0; queue = queue[1:] {
		if s := queue[0]; !known[s] {
			known[s] = true
			g.parts = append(g.parts, s)
			queue = append(append(queue, direct(s)...), only(s.Not)...)
		}
	}
}

// spread returns the parts for which is is true, and all from which they are reached.
func (g *formatGraph) spread(
	is func(*jsonschema.Schema) bool, next func(*jsonschema.Schema) []*jsonschema.Schema,
) map[*jsonschema.Schema]bool {
	all := map[*jsonschema.Schema]bool{}
	from := map[*jsonschema.Schema][]*jsonschema.Schema{}
	var queue []*jsonschema.Schema
	for _, s := range g.parts {
		if is(s) {
			queue = append(queue, s)
		}
		for _, child := range next(s) {
			from[child] = append(from[child], s)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		if s := queue[0]; !all[s] {
			all[s] = true
			queue = append(queue, from[s]...)
		}
	}
	return all
}

// positive returns the parts of s, with all to which a dynamic reference may lead. A format under not says nothing of
// a value that fits.
func (g *formatGraph) positive(s *jsonschema.Schema) []*jsonschema.Schema {
	return append(direct(s), g.dynamic(s)...)
}

// dynamic returns all parts to which a dynamic reference of s may lead.
func (g *formatGraph) dynamic(s *jsonschema.Schema) (all []*jsonschema.Schema) {
	if s.DynamicRef == nil && s.RecursiveRef == nil {
		return nil
	}
	for _, other := range g.parts {
		if s.RecursiveRef != nil && (other.RecursiveAnchor || other == g.parts[0]) ||
			s.DynamicRef != nil && s.DynamicRef.Anchor != "" && other.DynamicAnchor == s.DynamicRef.Anchor {
			all = append(all, other)
		}
	}
	if s.DynamicRef != nil {
		all = append(all, s.DynamicRef.Ref)
	}
	return append(all, only(s.RecursiveRef)...)
}

// direct returns the parts of s but for what is under not, and of a dynamic reference the target that it has by
// itself.
func direct(s *jsonschema.Schema) []*jsonschema.Schema {
	all := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, s.PrefixItems, only(s.Ref, s.RecursiveRef, s.If, s.Then, s.Else,
		s.PropertyNames, s.Contains, s.Items2020, s.UnevaluatedProperties, s.UnevaluatedItems),
		slices.Collect(maps.Values(s.Properties)), slices.Collect(maps.Values(s.PatternProperties)),
		slices.Collect(maps.Values(s.DependentSchemas)),
		schemaOf(s.AdditionalProperties), schemaOf(s.Items), schemaOf(s.AdditionalItems))
	if s.DynamicRef != nil {
		all = append(all, s.DynamicRef.Ref)
	}
	for _, of := range s.Dependencies {
		all = append(all, schemaOf(of)...)
	}
	return all
}

// only returns the schemas that are not nil.
func only(all ...*jsonschema.Schema) []*jsonschema.Schema {
	return slices.DeleteFunc(all, func(s *jsonschema.Schema) bool { return s == nil })
}

// schemaOf returns the schemas of a keyword that may also have another value.
func schemaOf(keyword any) []*jsonschema.Schema {
	switch of := keyword.(type) {
	case *jsonschema.Schema:
		return only(of)
	case []*jsonschema.Schema:
		return slices.Clone(of)
	}
	return nil
}

// node returns the nodes of schemas, without those that have none.
func (g *formatGraph) node(all ...*jsonschema.Schema) (nodes []*formatNode) {
	for _, s := range all {
		nodes = appendNode(nodes, g.nodes[s])
	}
	return nodes
}

func (g *formatGraph) fill(n *formatNode, s *jsonschema.Schema) {
	n.same = g.node(append(only(s.Ref), s.AllOf...)...)
	for _, one := range slices.Concat(s.AnyOf, s.OneOf, g.dynamic(s)) {
		g.choice(n, one, one, nil)
	}
	g.condition(n, s)
	n.dependent = map[string]*formatNode{}
	for name, of := range s.DependentSchemas {
		if to := g.nodes[of]; to != nil {
			n.dependent[name] = to
		}
	}
	for name, of := range s.Dependencies {
		for _, to := range g.node(schemaOf(of)...) {
			n.dependent[name] = to
		}
	}
	g.fillMembers(n, s)
	g.fillItems(n, s)
}

// choice adds a conditional part to n, if it leads to a format.
func (g *formatGraph) choice(n *formatNode, test, then, otherwise *jsonschema.Schema) {
	c := formatChoice{test, nil, g.nodes[then], g.nodes[otherwise]}
	if c.then != nil || c.otherwise != nil {
		n.maybe = append(n.maybe, c)
	}
}

// condition adds if, then and else. If the condition itself depends on a format, then and else may both apply.
func (g *formatGraph) condition(n *formatNode, s *jsonschema.Schema) {
	if s.If == nil {
		return
	}
	if !g.depends[s.If] {
		g.choice(n, s.If, s.Then, s.Else)
		return
	}
	for _, one := range only(s.If, s.Then, s.Else) {
		g.choice(n, one, one, nil)
	}
}

func (g *formatGraph) fillMembers(n *formatNode, s *jsonschema.Schema) {
	n.members, n.patterns = map[string]*formatNode{}, map[jsonschema.Regexp]*formatNode{}
	for name, of := range s.Properties {
		n.members[name] = g.nodes[of]
	}
	n.declared = newNames(s.Properties)
	for pattern, of := range s.PatternProperties {
		n.patterns[pattern] = g.nodes[of]
	}
	n.others = g.node(schemaOf(s.AdditionalProperties)...)
	if s.AdditionalProperties == nil { // which members are unevaluated depends on alternatives, so it may be all
		n.others = g.node(s.UnevaluatedProperties)
	}
	n.names = g.node(s.PropertyNames)
}

func (g *formatGraph) fillItems(n *formatNode, s *jsonschema.Schema) {
	first, _ := s.Items.([]*jsonschema.Schema) // of older drafts
	for _, of := range slices.Concat(first, s.PrefixItems) {
		n.first = append(n.first, g.nodes[of])
	}
	one, _ := s.Items.(*jsonschema.Schema)
	n.rest = g.node(append(only(one, s.Items2020), schemaOf(s.AdditionalItems)...)...)
	if one == nil && s.Items2020 == nil && s.AdditionalItems == nil {
		n.rest = g.node(s.UnevaluatedItems)
	}
	if to := g.nodes[s.Contains]; to != nil { // contains says nothing of an item that it does not accept
		n.each = []*formatNode{{maybe: []formatChoice{{s.Contains, nil, to, nil}}}}
	}
}

// loosen makes the compiled schema accept more, see formatGraph.
func (g *formatGraph) loosen() {
	for _, s := range g.parts {
		s.DynamicRef, s.RecursiveRef, s.UnevaluatedProperties, s.UnevaluatedItems = nil, nil, nil, nil
		if g.depends[s.Not] {
			s.Not = nil
		}
		if g.depends[s.If] {
			s.If, s.Then, s.Else = nil, nil, nil
		}
		if g.depends[s.Contains] {
			s.MaxContains = nil
		}
		if slices.ContainsFunc(s.OneOf, func(one *jsonschema.Schema) bool { return g.depends[one] }) {
			if s.AnyOf == nil {
				s.AnyOf = s.OneOf
			}
			s.OneOf = nil
		}
	}
}

// compileFormats compiles the schema raw at an address for the search of its formats.
func compileFormats(at string, raw []byte) (*formatNode, error) {
	root, g, err := formatsOf(at, raw)
	if err != nil {
		return nil, err
	}
	g.loosen()
	parts := planner{}
	for _, n := range g.nodes {
		for _, one := range append(slices.Clone(n.each), n) {
			for i := range one.maybe {
				one.maybe[i].test = parts.part(one.maybe[i].schema)
			}
		}
	}
	return g.nodes[root], nil
}

// formatsOf compiles a schema whose formats accept every value, and makes its graph.
func formatsOf(at string, raw []byte) (*jsonschema.Schema, *formatGraph, error) {
	doc, err := schemaDocument(raw)
	if err != nil {
		return nil, nil, err
	}
	c := newCompiler(loader{})
	for _, name := range formatNames() {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(any) error { return nil }})
	}
	root, err := c.at(at, doc)
	if err != nil {
		return nil, nil, err
	}
	roots := []*jsonschema.Schema{root}
	Walk(doc, func(pointer string, members map[string]any) {
		if members["$dynamicAnchor"] == nil || err != nil {
			return
		}
		var s *jsonschema.Schema // only a dynamic reference may lead to it, so it has to be looked for
		s, err = c.Compile(at + "#" + inFragment(pointer))
		roots = append(roots, s)
	})
	if err != nil {
		return nil, nil, err
	}
	return root, newFormatGraph(roots...), nil
}
