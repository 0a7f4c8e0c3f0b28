package jsonschema

import (
	"maps"
	"slices"
)

// apply checks v, which is checked against another part, against p as well. If it is valid, what p evaluates counts for
// the other part, too.
func (c *checker) apply(p *part, v any, seen *evaluated) bool {
	if seen == nil {
		return c.valid(p, v, nil)
	}
	more := &evaluated{}
	if !c.valid(p, v, more) {
		return false
	}
	c.take(len(more.members) + len(more.items))
	seen.add(more)
	return true
}

// fits is apply that lists no broken rules.
func (c *checker) fits(p *part, v any, seen *evaluated) bool {
	found := c.found
	c.found = nil
	ok := c.apply(p, v, seen)
	c.found = found
	return ok
}

// refer is apply for the target of a reference. A value may not come back to a part that it is checked against.
func (c *checker) refer(to *part, v any, seen *evaluated) bool {
	around := len(c.stack)
	for around > 0 && c.stack[around-1].depth == len(c.path) {
		around--
	}
	c.take((len(c.stack) - around) / framesPerStep)
	if slices.ContainsFunc(c.stack[around:], func(f frame) bool { return f.part == to }) {
		return c.found != nil && c.report("$ref", "cannot be checked: the schema refers to itself without end")
	}
	return c.apply(to, v, seen)
}

// framesPerStep is the number of frames that are looked at in the time of one step.
const framesPerStep = 4

// dynamic checks v against the targets of dynamic references.
func (c *checker) dynamic(p *part, v any, seen *evaluated) bool {
	ok := true
	if to := p.recursiveRef; to != nil {
		if to.schema.RecursiveAnchor {
			to = c.outermost("", to)
		}
		ok = c.refer(to, v, seen)
	}
	if to := p.dynamicRef; to != nil && c.goesOn(ok) {
		if name := p.schema.DynamicRef.Anchor; name != "" && name == to.schema.DynamicAnchor {
			to = c.outermost(name, to)
		}
		ok = c.refer(to, v, seen) && ok
	}
	return ok
}

// outermost returns the anchor of that name in the outermost resource that the checker is in and that has one.
func (c *checker) outermost(name string, otherwise *part) *part {
	c.take(len(c.stack) / framesPerStep)
	for _, f := range c.stack {
		if f.part.scope != nil && f.part.scope.anchors[name] != nil {
			return f.part.scope.anchors[name]
		}
	}
	return otherwise
}

func (c *checker) negated(p *part, v any, _ *evaluated) bool {
	return p.not == nil || !c.fits(p.not, v, nil) ||
		c.found != nil && c.report("not", "must not match the schema under not")
}

func (c *checker) all(p *part, v any, seen *evaluated) bool {
	ok := true
	for _, of := range p.allOf {
		if ok = c.apply(of, v, seen) && ok; !c.goesOn(ok) {
			return false
		}
	}
	return ok
}

func (c *checker) any(p *part, v any, seen *evaluated) bool {
	ok := len(p.anyOf) == 0
	for _, of := range p.anyOf {
		if c.fits(of, v, seen) {
			ok = true
			if seen == nil {
				break
			}
		}
	}
	return ok || c.found != nil && c.explain("anyOf", p.anyOf, v)
}

func (c *checker) one(p *part, v any, seen *evaluated) bool {
	matched := 0
	for _, of := range p.oneOf {
		if c.fits(of, v, seen) {
			matched++
		}
		if matched > 1 {
			return c.found != nil && c.report("oneOf", "matches more than one of the alternatives")
		}
	}
	return len(p.oneOf) == 0 || matched == 1 || c.found != nil && c.explain("oneOf", p.oneOf, v)
}

// explain reports that v fits none of the alternatives of a keyword, and why it does not fit each. It returns false.
func (c *checker) explain(keyword string, alternatives []*part, v any) bool {
	c.report(keyword, "matches none of the alternatives")
	for _, of := range alternatives {
		if !c.found.full() {
			c.valid(of, v, nil)
		}
	}
	return false
}

func (c *checker) conditional(p *part, v any, seen *evaluated) bool {
	switch {
	case p.condition == nil:
		return true
	case c.fits(p.condition, v, seen):
		return p.then == nil || c.apply(p.then, v, seen)
	}
	return p.otherwise == nil || c.apply(p.otherwise, v, seen)
}

// unevaluated checks the members or items that no other keyword has evaluated.
func (c *checker) unevaluated(p *part, v any, seen *evaluated) bool {
	switch v := v.(type) {
	case map[string]any:
		return p.members == nil || p.members.unevaluated == nil || c.otherMembers(p.members.unevaluated, v, seen)
	case []any:
		return p.items == nil || p.items.unevaluated == nil || c.otherItems(p.items.unevaluated, v, seen)
	}
	return true
}

func (c *checker) otherMembers(of *part, v map[string]any, seen *evaluated) bool {
	ok := true
	for _, name := range sortedNames(v) {
		if c.take(1); seen.all || seen.members[name] {
			continue
		}
		c.path = append(c.path, token{name: name})
		ok = c.valid(of, v[name], nil) && ok
		c.path = c.path[:len(c.path)-1]
		if !c.goesOn(ok) {
			return false
		}
	}
	seen.everything()
	return ok
}

func (c *checker) otherItems(of *part, v []any, seen *evaluated) bool {
	ok := true
	for i := seen.first; i < len(v) && !seen.all; i++ {
		if c.take(1); seen.items[i] {
			continue
		}
		if ok = c.item(of, v[i], i) && ok; !c.goesOn(ok) {
			return false
		}
	}
	seen.everything()
	return ok
}

// sortedNames returns the names of the members of v.
func sortedNames(v map[string]any) []string { return slices.Sorted(maps.Keys(v)) }

// evaluated is the set of the members or items of one value that a part of a schema has evaluated. The methods that add
// to it do nothing if it is nil.
type evaluated struct {
	all     bool
	members map[string]bool
	items   map[int]bool
	first   int // number of items at the beginning
}

func (e *evaluated) everything() {
	if e != nil {
		e.all = true
	}
}

func (e *evaluated) member(name string) {
	if e == nil || e.all {
		return
	}
	if e.members == nil {
		e.members = map[string]bool{}
	}
	e.members[name] = true
}

func (e *evaluated) item(i int) {
	if e == nil || e.all {
		return
	}
	if e.items == nil {
		e.items = map[int]bool{}
	}
	e.items[i] = true
}

func (e *evaluated) upTo(first int) {
	if e != nil {
		e.first = max(e.first, first)
	}
}

// add adds a set of the same value.
func (e *evaluated) add(more *evaluated) {
	e.all = e.all || more.all
	e.upTo(more.first)
	for name := range more.members {
		e.member(name)
	}
	for i := range more.items {
		e.item(i)
	}
}
