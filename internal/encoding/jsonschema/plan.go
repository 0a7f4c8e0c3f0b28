package jsonschema

import (
	"cmp"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// part is one part of a compiled schema, prepared for the checker. The parts that it leads to are nil or empty if the
// schema does not have their keywords.
type part struct {
	schema   *jsonschema.Schema
	types    int // set of the kinds that are allowed
	constant *keySet
	enum     *keySet
	bounds   []limit
	step     float64 // of multipleOf, if that is an integer, else 0
	scope    *scope  // nil in schemas without dynamic references

	ref, recursiveRef, dynamicRef *part
	not, condition                *part
	then, otherwise               *part
	allOf, anyOf, oneOf           []*part

	members *memberRules // nil if the schema has no rules for members
	items   *itemRules   // nil if the schema has no rules for items
}

// memberRules are the rules for members of objects.
type memberRules struct {
	properties  map[string]*part
	patterns    []patternPart
	others      *part // for members that are in neither
	additional  bool  // the schema says whether others are allowed
	closed      bool  // no others are allowed
	names       *part // for the names of members
	dependents  []dependent
	unevaluated *part
}

// itemRules are the rules for items of arrays.
type itemRules struct {
	first       []*part // for the first items
	rest        *part   // for the others
	additional  bool    // the schema says whether others are allowed
	closed      bool    // no others are allowed
	contains    *part
	unevaluated *part
}

// patternPart is the schema of the members whose names match a pattern.
type patternPart struct {
	name jsonschema.Regexp
	part *part
}

// dependent is a rule for objects that have the member name.
type dependent struct {
	name, rule string
	required   []string
	part       *part // nil if only members are required
}

// limit is the smallest or largest value of a number.
type limit struct {
	rule, words string
	value       *big.Rat
	at          float64 // value. Both are made of the shortest text of one float64, so that they compare in the same way
	holds       func(v, at float64) bool
}

func boundsOf(s *jsonschema.Schema) (all []limit) {
	for _, b := range []limit{
		{"minimum", "must be at least ", s.Minimum, 0, func(v, at float64) bool { return v >= at }},
		{"maximum", "must be at most ", s.Maximum, 0, func(v, at float64) bool { return v <= at }},
		{"exclusiveMinimum", "must be more than ", s.ExclusiveMinimum, 0, func(v, at float64) bool { return v > at }},
		{"exclusiveMaximum", "must be less than ", s.ExclusiveMaximum, 0, func(v, at float64) bool { return v < at }},
	} {
		if b.value != nil {
			b.at, _ = b.value.Float64()
			all = append(all, b)
		}
	}
	return all
}

// planner makes the parts of one compiled schema. It starts from what the library has resolved.
type planner map[*jsonschema.Schema]*part

// newPlan compiles the document at an address, and returns its root.
func newPlan(at string, raw []byte) (*part, error) {
	doc, err := schemaDocument(raw)
	if err != nil {
		return nil, err
	}
	c := newCompiler(loader{})
	root, err := c.at(at, doc)
	if err != nil {
		return nil, err
	}
	parts := planner{}
	plan := parts.part(root)
	parts.addScopes(c, at, doc)
	return plan, nil
}

// part returns the part of s, or nil for nil.
func (all planner) part(s *jsonschema.Schema) *part {
	if s == nil || all[s] != nil {
		return all[s]
	}
	p := &part{schema: s, types: kindAll}
	all[s] = p
	all.fillValue(p, s)
	all.fillMembers(p, s)
	all.fillItems(p, s)
	return p
}

func (all planner) parts(of []*jsonschema.Schema) []*part {
	if len(of) == 0 {
		return nil
	}
	parts := make([]*part, len(of))
	for i, s := range of {
		parts[i] = all.part(s)
	}
	return parts
}

func (all planner) fillValue(p *part, s *jsonschema.Schema) {
	if s.Types != nil && !s.Types.IsEmpty() {
		p.types = 0
		for _, name := range s.Types.ToStrings() {
			p.types |= kindsOf[name]
		}
	}
	if s.Const != nil {
		p.constant = newKeySet(*s.Const)
	}
	if s.Enum != nil {
		p.enum = newKeySet(s.Enum.Values...)
	}
	p.bounds = boundsOf(s)
	if s.MultipleOf != nil && s.MultipleOf.IsInt() {
		p.step, _ = s.MultipleOf.Float64()
	}
	p.ref, p.recursiveRef = all.part(s.Ref), all.part(s.RecursiveRef)
	if s.DynamicRef != nil {
		p.dynamicRef = all.part(s.DynamicRef.Ref)
	}
	p.not, p.condition, p.then, p.otherwise = all.part(s.Not), all.part(s.If), all.part(s.Then), all.part(s.Else)
	p.allOf, p.anyOf, p.oneOf = all.parts(s.AllOf), all.parts(s.AnyOf), all.parts(s.OneOf)
}

func (all planner) fillMembers(p *part, s *jsonschema.Schema) {
	m := &memberRules{additional: s.AdditionalProperties != nil}
	if len(s.Properties) > 0 {
		m.properties = make(map[string]*part, len(s.Properties))
	}
	for name, of := range s.Properties {
		m.properties[name] = all.part(of)
	}
	for name, of := range s.PatternProperties {
		m.patterns = append(m.patterns, patternPart{name, all.part(of)})
	}
	slices.SortFunc(m.patterns, func(a, b patternPart) int { return cmp.Compare(a.name.String(), b.name.String()) })
	switch of := s.AdditionalProperties.(type) {
	case bool:
		m.closed = !of
	case *jsonschema.Schema:
		m.others = all.part(of)
	}
	m.names, m.unevaluated = all.part(s.PropertyNames), all.part(s.UnevaluatedProperties)
	m.dependents = all.dependents(s)
	if m.looks() || m.additional || m.dependents != nil || m.unevaluated != nil {
		p.members = m
	}
}

// looks reports whether there are rules for single members.
func (m *memberRules) looks() bool {
	return m.properties != nil || m.patterns != nil || m.others != nil || m.closed || m.names != nil
}

func (all planner) dependents(s *jsonschema.Schema) (found []dependent) {
	for _, name := range slices.Sorted(maps.Keys(s.DependentRequired)) {
		found = append(found, dependent{name, "dependentRequired", s.DependentRequired[name], nil})
	}
	for _, name := range slices.Sorted(maps.Keys(s.DependentSchemas)) {
		found = append(found, dependent{name, "", nil, all.part(s.DependentSchemas[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Dependencies)) {
		d := dependent{name: name, rule: "dependencies"}
		switch of := s.Dependencies[name].(type) {
		case []string:
			d.required = of
		case *jsonschema.Schema:
			d.part = all.part(of)
		}
		found = append(found, d)
	}
	return found
}

func (all planner) fillItems(p *part, s *jsonschema.Schema) {
	r := &itemRules{
		first: all.parts(s.PrefixItems), rest: all.part(s.Items2020), additional: s.AdditionalItems != nil,
		contains: all.part(s.Contains), unevaluated: all.part(s.UnevaluatedItems),
	}
	switch of := s.Items.(type) { // of older drafts
	case *jsonschema.Schema:
		r.rest = all.part(of)
	case []*jsonschema.Schema:
		r.first = all.parts(of)
	}
	switch of := s.AdditionalItems.(type) {
	case bool:
		r.closed = !of
	case *jsonschema.Schema:
		r.rest = all.part(of)
	}
	if len(r.first) > 0 || r.rest != nil || r.additional || r.contains != nil || r.unevaluated != nil {
		p.items = r
	}
}

// scope is one resource of a schema: what a dynamic reference finds in it.
type scope struct {
	anchors map[string]*part // by the name of $dynamicAnchor; "" is the root, if it has $recursiveAnchor
}

// addScopes sets the scopes of all parts, if any of them has a dynamic reference. Another document can only be one of
// the dialects of JSON Schema, which the library has: those are resources without others in them.
func (all planner) addScopes(c compiler, at string, doc any) {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(all)), func(s *jsonschema.Schema) bool {
		return s.DynamicRef != nil || s.RecursiveRef != nil
	}) {
		return
	}
	places := map[string]bool{} // of resources and of anchors, to which only a dynamic reference may lead
	resources := map[string]bool{"": true}
	Walk(doc, func(pointer string, members map[string]any) {
		if id, named := members["$id"].(string); named && !strings.HasPrefix(id, "#") {
			resources[pointer] = true
		}
		if resources[pointer] || members["$dynamicAnchor"] != nil {
			places[at+"#"+inFragment(pointer)] = true
		}
	})
	for known := 0; known != len(all); { // a part may lead to another document
		known = len(all)
		for s := range all {
			address, _, _ := strings.Cut(s.Location, "#")
			places[address+"#"] = true
		}
		for place := range places {
			if s, err := c.Compile(place); err == nil { // an error is in a part that nothing leads to
				all.part(s)
			}
		}
	}
	scopes := map[string]*scope{}
	for s, p := range all {
		resource := resourceOf(s.Location, at, resources)
		p.scope = scopeAt(scopes, resource)
		if s.DynamicAnchor != "" && s.DraftVersion >= 2020 {
			p.scope.anchors[s.DynamicAnchor] = p
		}
		if s.RecursiveAnchor && s.Location == resource {
			p.scope.anchors[""] = p
		}
	}
}

func scopeAt(scopes map[string]*scope, place string) *scope {
	if scopes[place] == nil {
		scopes[place] = &scope{anchors: map[string]*part{}}
	}
	return scopes[place]
}

// resourceOf returns the location of the resource that the part at a location belongs to. resources has the pointers
// to those of the document at an address.
func resourceOf(location, at string, resources map[string]bool) string {
	address, pointer, _ := strings.Cut(location, "#")
	if address != at {
		return address + "#"
	}
	for pointer != "" && !resources[outOfFragment(pointer)] {
		pointer = pointer[:strings.LastIndexByte(pointer, '/')]
	}
	return address + "#" + pointer
}
