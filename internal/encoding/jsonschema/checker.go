package jsonschema

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// checker checks one decoded value. First it only decides whether the value is valid, and stops at the first broken
// rule. For an invalid value it starts again and lists the rules. So alternatives that a valid value does not take cost
// no memory, and the memory for the rules does not depend on the value.
type checker struct {
	steps
	stack []frame // the parts that the checker is in, outermost first
	path  []token // to the value that is checked
	key   []byte  // reused
	found *findings
}

// frame is a part that the checker is in, and the depth of the value that it checks against the part.
type frame struct {
	part  *part
	depth int
}

// token is the name of a member, or the index of an item if the name is "".
type token struct {
	name  string
	index int
	item  bool
}

// findings are the rules that a value breaks. The checker only lists them if it has findings.
type findings struct {
	list  []Violation
	known map[Violation]bool
}

// full reports whether the list has one more violation than an error may have.
func (f *findings) full() bool { return len(f.list) > ijson.MaxViolations }

// newChecker returns a checker for a value of that size. The check ends with the error that ended returns; ended may be
// nil.
func newChecker(ended func() error, bytes int) *checker {
	return &checker{steps: newSteps(ended, bytes)}
}

// unchecked is the message for a value whose check has ended early.
const unchecked = "cannot be checked: the schema tries it in too many ways"

// judge returns the rules of a schema that v breaks, sorted, and at most one more than an error may have. The error is
// the one with which the check was ended, before it was known whether v is valid.
func (c *checker) judge(root *part, v any) ([]Violation, error) {
	valid := false
	switch err := bounded(func() { valid = c.valid(root, v, nil) }); {
	case errors.Is(err, errSteps):
		return []Violation{ijson.NewViolation("", "steps", unchecked)}, nil
	case err != nil || valid:
		return nil, err
	}
	found := &findings{known: map[Violation]bool{}}
	c.found = found
	err := bounded(func() { c.valid(root, v, nil) })
	if err != nil && !found.full() || len(found.list) == 0 {
		found.list = append(found.list, ijson.NewViolation("", "steps", "breaks rules that take too long to list"))
	}
	slices.SortFunc(found.list, compareViolations)
	return found.list, nil
}

// valid reports whether v is valid against p. It adds the members or items of v that p evaluates to seen, which may be
// nil.
func (c *checker) valid(p *part, v any, seen *evaluated) bool {
	c.take(1)
	if b := p.schema.Bool; b != nil {
		return *b || c.found != nil && c.report("false", "is not allowed here")
	}
	if len(c.stack) == maxNested {
		panic(stopped{errSteps})
	}
	c.stack = append(c.stack, frame{p, len(c.path)})
	if seen == nil && p.looksAtTheRest() {
		seen = &evaluated{}
	}
	ok := c.itself(p, v) && c.rest(p, v, seen)
	c.stack = c.stack[:len(c.stack)-1]
	return ok
}

// looksAtTheRest reports whether p has rules for the members or items that no other part evaluates.
func (p *part) looksAtTheRest() bool {
	return p.members != nil && p.members.unevaluated != nil || p.items != nil && p.items.unevaluated != nil
}

// goesOn reports whether to check further rules after one that holds or not.
func (c *checker) goesOn(ok bool) bool { return ok || c.found != nil && !c.found.full() }

// itself checks the rules of which a broken one makes all others pointless.
func (c *checker) itself(p *part, v any) bool {
	s := p.schema
	switch kind := kindOf(v); {
	case p.types&kind == 0:
		return c.found != nil && c.report("type",
			fmt.Sprintf("must be %s, not %s", strings.Join(s.Types.ToStrings(), " or "), nameOf(kind)))
	case p.constant != nil && !c.in(p.constant, v):
		return c.found != nil && c.report("const", "must be "+p.constant.text)
	case p.enum != nil && !c.in(p.enum, v):
		return c.found != nil && c.report("enum", "must be one of "+p.enum.text)
	case s.Format != nil && !c.hasFormat(s.Format, v):
		return c.found != nil && c.report("format", "must be a valid "+s.Format.Name)
	}
	return true
}

func (c *checker) hasFormat(f *jsonschema.Format, v any) bool {
	if text, ok := v.(string); ok {
		c.read(len(text))
		if f.Name == "regex" {
			c.take(len(text)) // it is compiled
		}
	}
	return f.Validate(v) == nil
}

// nameOf returns the name of a kind in JSON Schema.
func nameOf(kind int) string {
	switch kind {
	case kindNull:
		return "null"
	case kindBool:
		return "boolean"
	case kindString:
		return "string"
	case kindArray:
		return "array"
	case kindObject:
		return "object"
	}
	return "number"
}

// rest checks the rules after those of itself.
func (c *checker) rest(p *part, v any, seen *evaluated) bool {
	ok := p.ref == nil || c.refer(p.ref, v, seen)
	if p.ref != nil && p.schema.DraftVersion < 2019 { // the other keywords mean nothing
		return ok
	}
	for _, check := range [...]func(*checker, *part, any, *evaluated) bool{
		(*checker).value, (*checker).dynamic, (*checker).negated, (*checker).all, (*checker).any, (*checker).one,
		(*checker).conditional,
	} {
		if !c.goesOn(ok) {
			return false
		}
		ok = check(c, p, v, seen) && ok
	}
	return ok && c.unevaluated(p, v, seen) // a broken rule above leaves parts unevaluated
}

// value checks the rules for values of one kind.
func (c *checker) value(p *part, v any, seen *evaluated) bool {
	switch v := v.(type) {
	case map[string]any:
		return c.object(p, v, seen)
	case []any:
		return c.array(p, v, seen)
	case string:
		return c.text(p, v)
	case float64:
		return c.number(p, v)
	}
	return true
}

// sized checks a number of characters, items or members.
func (c *checker) sized(n int, least, most *int, keyword, things string) bool {
	ok := true
	if least != nil && n < *least {
		ok = c.found != nil && c.report("min"+keyword, fmt.Sprintf("must have at least %d %s, has %d", *least, things, n))
	}
	if most != nil && n > *most {
		ok = c.found != nil && c.report("max"+keyword, fmt.Sprintf("must have at most %d %s, has %d", *most, things, n))
	}
	return ok
}

func (c *checker) text(p *part, v string) bool {
	s, ok := p.schema, true
	if s.MinLength != nil || s.MaxLength != nil {
		c.take(len(v) / (8 * bytesPerStep))
		ok = c.sized(utf8.RuneCountInString(v), s.MinLength, s.MaxLength, "Length", "characters")
	}
	if s.Pattern == nil || !c.goesOn(ok) {
		return ok
	}
	c.read(len(v))
	if s.Pattern.MatchString(v) {
		return ok
	}
	return c.found != nil && c.report("pattern", "must match "+ijson.Clip(s.Pattern.String(), ijson.MaxViolationText))
}

func (c *checker) number(p *part, v float64) bool {
	ok := true
	for _, b := range p.bounds {
		if !b.holds(v, b.at) {
			ok = c.found != nil && c.report(b.rule, b.words+b.value.RatString())
		}
	}
	if p.schema.MultipleOf == nil || c.isMultiple(p, v) {
		return ok
	}
	return c.found != nil && c.report("multipleOf", "must be a multiple of "+p.schema.MultipleOf.RatString())
}

// stepsOfQuotient is the number of steps that the division of two rational numbers counts.
const stepsOfQuotient = 8

// isMultiple reports whether v is a multiple of what p says, as decimal numbers: 0.3 is one of 0.1.
func (c *checker) isMultiple(p *part, v float64) bool {
	const exact = 1 << 53 // float64 holds integers up to it
	if 0 < p.step && p.step <= exact && math.Abs(v) <= exact {
		return math.Mod(v, p.step) == 0
	}
	c.take(stepsOfQuotient)
	of, _ := new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
	return of.Quo(of, p.schema.MultipleOf).IsInt()
}

func (c *checker) object(p *part, v map[string]any, seen *evaluated) bool {
	s := p.schema
	ok := c.sized(len(v), s.MinProperties, s.MaxProperties, "Properties", "members")
	if c.goesOn(ok) {
		ok = c.required(p, v) && ok
	}
	m := p.members
	if m == nil {
		return ok
	}
	if c.goesOn(ok) {
		ok = c.members(m, v, seen) && ok
	}
	for _, d := range m.dependents {
		if !c.goesOn(ok) {
			return false
		}
		ok = c.dependent(d, v, seen) && ok
	}
	return ok
}

func (c *checker) required(p *part, v map[string]any) bool {
	ok := true
	c.take(len(p.schema.Required) / 4)
	for _, name := range p.schema.Required {
		if _, has := v[name]; !has {
			ok = c.found != nil && c.reportMember(name, "required", "is missing"+p.members.misspelt(c, v, name))
			if !c.goesOn(ok) {
				return false
			}
		}
	}
	return ok
}

// members checks the members of v, in the order of their names if it lists the broken rules.
func (c *checker) members(m *memberRules, v map[string]any, seen *evaluated) bool {
	switch {
	case !m.looks():
		if m.additional {
			seen.everything()
		}
		return true
	case c.found == nil:
		for name, value := range v {
			if !c.member(m, v, name, value, seen) {
				return false
			}
		}
		return true
	}
	ok := true
	for _, name := range sortedNames(v) {
		if ok = c.member(m, v, name, v[name], seen) && ok; !c.goesOn(ok) {
			return false
		}
	}
	return ok
}

// member checks the member name of the object in, whose value is value.
func (c *checker) member(m *memberRules, in map[string]any, name string, value any, seen *evaluated) bool {
	c.take(1)
	c.path = append(c.path, token{name: name})
	ok, known := true, false
	if of := m.properties[name]; of != nil {
		ok, known = c.valid(of, value, nil), true
	}
	for _, of := range m.patterns {
		c.read(len(name))
		if of.name.MatchString(name) {
			ok, known = c.valid(of.part, value, nil) && ok, true
		}
	}
	switch {
	case known:
	case m.others != nil:
		ok = c.valid(m.others, value, nil)
	case m.closed:
		ok = c.found != nil && c.report("additionalProperties", "is not allowed here"+m.meant(c, in, name))
	}
	if known || m.additional {
		seen.member(name)
	}
	if m.names != nil && !c.fits(m.names, name, nil) {
		ok = c.found != nil && c.report("propertyNames", "the name is not allowed")
	}
	c.path = c.path[:len(c.path)-1]
	return ok
}

func (c *checker) dependent(d dependent, v map[string]any, seen *evaluated) bool {
	c.take(1 + len(d.required)/4)
	if _, has := v[d.name]; !has {
		return true
	}
	if d.part != nil {
		return c.apply(d.part, v, seen)
	}
	missing := slices.DeleteFunc(slices.Clone(d.required), func(name string) bool { return has(v, name) })
	return len(missing) == 0 || c.found != nil && c.report(d.rule,
		fmt.Sprintf("must have %s because it has %s", strings.Join(missing, ", "), d.name))
}

func has(v map[string]any, name string) bool {
	_, has := v[name]
	return has
}

func (c *checker) array(p *part, v []any, seen *evaluated) bool {
	s := p.schema
	ok := c.sized(len(v), s.MinItems, s.MaxItems, "Items", "items")
	if s.UniqueItems && c.goesOn(ok) {
		if first, second, unique := c.unique(v); !unique {
			ok = c.found != nil && c.report("uniqueItems", fmt.Sprintf("items %d and %d are equal", first, second))
		}
	}
	if p.items == nil {
		return ok
	}
	if c.goesOn(ok) {
		ok = c.items(p.items, v, seen) && ok
	}
	if p.items.contains != nil && c.goesOn(ok) {
		ok = c.contains(p, v, seen) && ok
	}
	return ok
}

func (c *checker) items(r *itemRules, v []any, seen *evaluated) bool {
	ok := true
	for i, item := range v {
		of := r.rest
		if i < len(r.first) {
			of = r.first[i]
		}
		if of == nil {
			break
		}
		if ok = c.item(of, item, i) && ok; !c.goesOn(ok) {
			return false
		}
	}
	if r.rest != nil || r.additional {
		seen.everything()
	}
	seen.upTo(len(r.first))
	if extra := len(v) - len(r.first); r.closed && extra > 0 {
		return c.found != nil && c.report("additionalItems", fmt.Sprintf("has %d items too many", extra))
	}
	return ok
}

func (c *checker) item(of *part, item any, i int) bool {
	c.path = append(c.path, token{index: i, item: true})
	ok := c.valid(of, item, nil)
	c.path = c.path[:len(c.path)-1]
	return ok
}

func (c *checker) contains(p *part, v []any, seen *evaluated) bool {
	least, s, found, matched := 1, p.schema, c.found, 0
	if s.MinContains != nil {
		least = *s.MinContains
	}
	c.found = nil
	for i, item := range v {
		if seen == nil && s.MaxContains == nil && matched >= least {
			break
		}
		if c.item(p.items.contains, item, i) {
			matched++
			if s.DraftVersion >= 2020 {
				seen.item(i)
			}
		}
	}
	c.found = found
	switch {
	case s.MaxContains != nil && matched > *s.MaxContains:
		return c.found != nil && c.report("maxContains", "has too many items of one kind")
	case matched >= least:
		return true
	case c.found == nil:
		return false
	}
	rule := "contains"
	if s.MinContains != nil {
		rule = "minContains"
	}
	c.report(rule, "has too few items of the kind demanded")
	for i := 0; i < len(v) && !c.found.full(); i++ {
		c.item(p.items.contains, v[i], i)
	}
	return false
}

// report adds a broken rule of the value that is checked to the findings. It returns false.
func (c *checker) report(rule, message string) bool {
	c.take(stepsOfReport)
	v := ijson.NewViolation(c.pointer(), rule, message)
	if !c.found.known[v] {
		c.found.known[v] = true
		c.found.list = append(c.found.list, v)
	}
	return false
}

// stepsOfReport is the number of steps that a report counts.
const stepsOfReport = 16

// reportMember reports a broken rule of a member.
func (c *checker) reportMember(name, rule, message string) bool {
	c.path = append(c.path, token{name: name})
	c.report(rule, message)
	c.path = c.path[:len(c.path)-1]
	return false
}

// pointer returns the beginning of the pointer to the value that is checked, which is all that a violation keeps.
func (c *checker) pointer() string {
	var b []byte
	for i := 0; i < len(c.path) && len(b) <= ijson.MaxViolationText; i++ {
		b = append(b, '/')
		if at := c.path[i]; at.item {
			b = strconv.AppendInt(b, int64(at.index), 10)
		} else {
			b = append(b, escaped(at.name[:min(len(at.name), ijson.MaxViolationText)])...)
		}
	}
	return string(b)
}
