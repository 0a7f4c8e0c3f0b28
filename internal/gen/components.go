package gen

import (
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/schema"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// components are the schemas of an OpenAPI document that others refer to. Few readers of such documents know addresses
// ($id) and definitions within a schema ($defs), so each definition is a component, and each reference a pointer.
type components map[string]any

// add adds a schema under a name with all that it refers to, and returns what stands for it.
func (c components) add(name string, s *schema.Schema) (any, error) {
	var whole any
	if err := json.Unmarshal(s.Whole(), &whole); err != nil {
		return nil, err
	}
	top, _ := whole.(map[string]any)
	if !strings.Contains(string(s.Whole()), `ef"`) { // $ref, $dynamicRef
		return whole, nil
	}
	p := placing{name: name, defs: map[string]string{}}
	defs, _ := top["$defs"].(map[string]any)
	for def := range defs {
		p.defs[def] = name + "." + subjects.Token(def)
	}
	p.base, _ = top["$id"].(string)
	for def, of := range defs {
		within := p
		if id, ok := idOf(of); ok {
			within.base, within.document = id, p.defs[def]
		}
		c[p.defs[def]] = within.schema(of)
	}
	delete(top, "$defs")
	c[name] = p.schema(top)
	return map[string]any{"$ref": component(name)}, nil
}

func component(name string) string { return "#/components/schemas/" + name }

func idOf(s any) (string, bool) {
	members, _ := s.(map[string]any)
	id, ok := members["$id"].(string)
	return id, ok
}

// placing turns the references of a schema into pointers to components.
type placing struct {
	name     string            // of the component that the whole is
	defs     map[string]string // the components of its definitions
	base     string            // address of the document that is being read
	document string            // its component; the whole where it is ""
}

// Where a schema has schemas.
var (
	schemaMaps  = []string{"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
	schemaLists = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	schemaOnes  = []string{
		"items", "additionalProperties", "contains", "propertyNames", "if", "then", "else", "not", "unevaluatedItems",
		"unevaluatedProperties", "contentSchema",
	}
)

// schema changes s and returns it.
func (p placing) schema(s any) any {
	members, ok := s.(map[string]any)
	if !ok {
		return s
	}
	delete(members, "$id")
	delete(members, "$schema") // that of the document holds
	if to, ok := members["$ref"].(string); ok {
		members["$ref"] = p.pointer(to)
	}
	for _, name := range schemaMaps {
		all, _ := members[name].(map[string]any)
		for key := range all {
			all[key] = p.schema(all[key])
		}
	}
	for _, name := range schemaLists {
		all, _ := members[name].([]any)
		for i := range all {
			all[i] = p.schema(all[i])
		}
	}
	for _, name := range schemaOnes {
		p.schema(members[name])
	}
	return members
}

// pointer is the pointer to what a reference in the present document names. One that is no pointer stays as it is.
func (p placing) pointer(to string) string {
	base, err := url.Parse(p.base)
	if err != nil {
		return to
	}
	at, err := base.Parse(to)
	if err != nil {
		return to
	}
	path := at.EscapedFragment()
	at.Fragment, at.RawFragment = "", ""
	other, def := p.defs[at.String()]
	switch {
	case path != "" && path[0] != '/':
		return to
	case def:
		return component(other) + path
	case p.document != "":
		return component(p.document) + path
	}
	if within, ok := strings.CutPrefix(path, "/$defs/"); ok {
		name, rest, more := strings.Cut(within, "/")
		if known, ok := p.defs[name]; ok && !more {
			return component(known)
		} else if ok {
			return component(known) + "/" + rest
		}
	}
	return component(p.name) + path
}
