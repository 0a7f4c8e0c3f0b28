package gen

import (
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// components are the shared schemas of an OpenAPI document. Few consumers of such documents support addresses ($id) and
// definitions inside a schema ($defs). So each definition becomes a component, and each reference a pointer.
type components map[string]jsontext.Value

// add adds a schema, with everything that it refers to, as the component name. It returns the schema itself, or a
// reference to the component if the schema contains references.
func (c components) add(name string, of []byte) (jsontext.Value, error) {
	text, err := jsonschema.Alone(of)
	if err != nil {
		return nil, err
	}
	whole, err := jsonschema.Decode(text)
	if err != nil {
		return nil, err
	}
	jsonschema.Modernize(whole) // an OpenAPI document has one dialect
	referred := false
	jsonschema.Repoint(whole, func(to string) string {
		referred = true
		if within, ok := strings.CutPrefix(to, "/$defs/"); ok {
			def, rest, deeper := strings.Cut(within, "/")
			if deeper {
				rest = "/" + rest
			}
			return component(name+"."+subjects.Token(nameOf(def))) + rest
		}
		return component(name) + to
	})
	jsonschema.Walk(whole, func(_ string, members map[string]any) { delete(members, "$id") })
	top, ok := whole.(map[string]any)
	if !ok || !referred {
		return encoded(whole)
	}
	defs, _ := top["$defs"].(map[string]any)
	for def, of := range defs {
		if c[name+"."+subjects.Token(def)], err = encoded(of); err != nil {
			return nil, err
		}
	}
	delete(top, "$defs")
	if c[name], err = encoded(top); err != nil {
		return nil, err
	}
	return encoded(map[string]any{"$ref": component(name)})
}

func encoded(v any) (jsontext.Value, error) { return jsonschema.Encode(v) }

// nameOf returns the name that is encoded in a token of a JSON pointer in a reference.
func nameOf(token string) string {
	if plain, err := url.PathUnescape(token); err == nil {
		token = plain
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
}

func component(name string) string { return "#/components/schemas/" + name }
