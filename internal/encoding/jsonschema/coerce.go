package jsonschema

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// Coerce returns v with some strings replaced by the JSON value that they spell, such as "5" by 5. It replaces a string
// only where the schema certainly allows no string, and allows a value of the kind that it spells. So it never changes
// a valid v, and its result may be invalid. Digits stay as they are: a number that I-JSON cannot represent stays a
// string. v must be I-JSON, and so is the result. If it would take more than [MaxSteps], Coerce changes nothing.
func (s *Schema) Coerce(v jsontext.Value) jsontext.Value {
	if s.Accepts(v) {
		return v
	}
	root, err := s.plan()
	if err != nil { // cannot be, see judge
		return v
	}
	c, coerced := &coercer{steps: newSteps(nil, 0), kinds: map[*part]int{}}, v
	err = bounded(func() { coerced = c.value(v, []*part{root}) })
	if err != nil || c.changes == 0 || !ijson.Valid(coerced) { // it may be nested too deep now
		return v
	}
	return coerced
}

// coercer coerces one value. A value is subject to several parts of the schema, which it must all match.
type coercer struct {
	steps
	kinds   map[*part]int
	changes int // number of strings that were replaced
}

// value returns v coerced. v must match all the parts.
func (c *coercer) value(v jsontext.Value, parts []*part) jsontext.Value {
	if c.take(1); len(parts) == 0 {
		return v
	}
	v, coerced := c.text(v, parts), jsontext.Value(nil)
	before := c.changes
	switch v.Kind() {
	case '{':
		coerced = c.members(v, parts)
	case '[':
		coerced = c.items(v, parts)
	}
	if c.changes == before {
		return v
	}
	return coerced
}

// text returns the value that a string spells, if the parts allow no string but a value of that kind. It returns every
// other value unchanged.
func (c *coercer) text(v jsontext.Value, parts []*part) jsontext.Value {
	if v.Kind() != '"' {
		return v
	}
	allowed := kindAll
	for _, p := range parts {
		allowed &= c.allowed(p)
	}
	if allowed&kindString != 0 {
		return v
	}
	c.read(len(v))
	spelled := spelledBy(string(ijson.Member{Name: v}.Plain()))
	if spelled == nil || allowed&kindOfText(spelled) == 0 {
		return v
	}
	c.changes++
	return spelled
}

func (c *coercer) members(v jsontext.Value, parts []*part) jsontext.Value {
	parts = c.applying(parts, kindObject)
	members := ijson.Members(v)
	for i, m := range members {
		members[i].Value = c.value(m.Value, c.partsOf(parts, func(p *part) *part { return p.member(string(m.Plain())) }))
	}
	return ijson.Object(members...)
}

func (c *coercer) items(v jsontext.Value, parts []*part) jsontext.Value {
	parts = c.applying(parts, kindArray)
	items := ijson.Items(v)
	for i, item := range items {
		items[i] = c.value(item, c.partsOf(parts, func(p *part) *part { return p.item(i) }))
	}
	return ijson.Array(items...)
}

// partsOf returns the parts for a member or an item, which of returns for one part, or nil.
func (c *coercer) partsOf(parts []*part, of func(*part) *part) (found []*part) {
	c.take(len(parts))
	for _, p := range parts {
		if one := of(p); one != nil {
			found = append(found, one)
		}
	}
	return found
}

// applying returns the parts that a value of this kind must match, and the parts that these lead to. It follows one of
// several alternatives only if no other allows the kind.
func (c *coercer) applying(parts []*part, kind int) (all []*part) {
	for queue := slices.Clone(parts); len(queue) > 0; queue = queue[1:] {
		p := queue[0]
		if c.take(1 + len(all)); slices.Contains(all, p) {
			continue
		}
		all = append(all, p)
		queue = append(queue, p.allOf...)
		if p.ref != nil {
			queue = append(queue, p.ref)
		}
		for _, alternatives := range [][]*part{p.anyOf, p.oneOf} {
			fitting := c.partsOf(alternatives, func(p *part) *part {
				if c.allowed(p)&kind == 0 {
					return nil
				}
				return p
			})
			if len(fitting) == 1 {
				queue = append(queue, fitting[0])
			}
		}
	}
	return all
}

// allowed returns the kinds of value that p may allow, and perhaps more: p certainly allows no others.
func (c *coercer) allowed(p *part) int {
	if kinds, known := c.kinds[p]; known {
		return kinds
	}
	c.take(1)
	c.kinds[p] = kindAll // for a reference of p to itself
	kinds := p.types & p.literalKinds()
	for _, all := range p.allOf {
		kinds &= c.allowed(all)
	}
	if p.ref != nil {
		kinds &= c.allowed(p.ref)
	}
	for _, alternatives := range [][]*part{p.anyOf, p.oneOf} {
		if len(alternatives) == 0 {
			continue
		}
		some := 0
		for _, one := range alternatives {
			some |= c.allowed(one)
		}
		kinds &= some
	}
	c.kinds[p] = kinds
	return kinds
}

// literalKinds returns the kinds of the values that enum, const or the schemas true and false allow.
func (p *part) literalKinds() int {
	s, kinds := p.schema, kindAll
	if s.Bool != nil && !*s.Bool {
		return 0
	}
	if s.Const != nil {
		kinds &= kindOf(*s.Const)
	}
	if s.Enum != nil {
		some := 0
		for _, v := range s.Enum.Values {
			some |= kindOf(v)
		}
		kinds &= some
	}
	return kinds
}

// member returns a part that the member name must match, or nil if none is known.
func (p *part) member(name string) *part {
	m := p.members
	if m == nil {
		return nil
	}
	if named := m.properties[name]; named != nil {
		return named
	}
	if len(m.patterns) > 0 {
		return nil
	}
	return m.others
}

// item returns a part that item i must match, or nil if none is known.
func (p *part) item(i int) *part {
	switch {
	case p.items == nil:
		return nil
	case i < len(p.items.first):
		return p.items.first[i]
	}
	return p.items.rest
}

// spelledBy returns the JSON value that a text spells, or nil. It accepts true and false in any case, as Python writes
// them, and white space around the value.
func spelledBy(text string) jsontext.Value {
	text = strings.Trim(text, " \t\r\n")
	for _, word := range []string{"true", "false"} {
		if strings.EqualFold(text, word) {
			return jsontext.Value(word)
		}
	}
	if spelled := jsontext.Value(text); text != "" && text[0] != '"' && ijson.Valid(spelled) {
		return spelled
	}
	return nil
}

// kindOfText returns the kind of a valid JSON value. A number with a point or an exponent counts as no integer.
func kindOfText(v jsontext.Value) int {
	switch v.Kind() {
	case 'n':
		return kindNull
	case 't', 'f':
		return kindBool
	case '"':
		return kindString
	case '[':
		return kindArray
	case '{':
		return kindObject
	}
	if ijson.Fractional(v) {
		return kindNumber
	}
	return kindInteger
}
