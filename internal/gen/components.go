package gen

import (
	"strings"

	"github.com/seed-018f16cc/toolbus/schema"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// components are the schemas of an OpenAPI document that others refer to. Few readers of such documents know addresses
// ($id) and definitions within a schema ($defs), so each definition is a component, and each reference a pointer.
type components map[string]any

// add adds a schema under a name with all that it refers to, and returns what stands for it.
func (c components) add(name string, of []byte) (any, error) {
	text, err := schema.Alone(of)
	if err != nil {
		return nil, err
	}
	whole, err := schema.Decode(text)
	if err != nil {
		return nil, err
	}
	schema.Modernize(whole) // a document has one dialect
	referred := false
	schema.Repoint(whole, func(to string) string {
		referred = true
		if within, ok := strings.CutPrefix(to, "/$defs/"); ok {
			def, rest, deeper := strings.Cut(within, "/")
			if deeper {
				rest = "/" + rest
			}
			return component(name+"."+subjects.Token(unescaped.Replace(def))) + rest
		}
		return component(name) + to
	})
	top, ok := whole.(map[string]any)
	if !ok {
		return whole, nil
	}
	schema.Walk(top, func(_ string, members map[string]any) { delete(members, "$id") })
	if !referred {
		return top, nil
	}
	defs, _ := top["$defs"].(map[string]any)
	for def, of := range defs {
		c[name+"."+subjects.Token(def)] = of
	}
	delete(top, "$defs")
	c[name] = top
	return map[string]any{"$ref": component(name)}, nil
}

// unescaped turns a token of a JSON pointer into the name that it stands for.
var unescaped = strings.NewReplacer("~1", "/", "~0", "~")

func component(name string) string { return "#/components/schemas/" + name }
