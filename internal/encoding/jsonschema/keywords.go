package jsonschema

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// keywords are the keywords of JSON Schema 2020-12, with those that its metaschema has for older schemas.
var keywords = strings.Fields(`
	$schema $id $ref $anchor $dynamicRef $dynamicAnchor $vocabulary $comment $defs $recursiveAnchor $recursiveRef
	allOf anyOf oneOf not if then else dependentSchemas dependencies definitions
	prefixItems items contains properties patternProperties additionalProperties propertyNames
	unevaluatedItems unevaluatedProperties
	type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern
	maxItems minItems uniqueItems maxContains minContains maxProperties minProperties required dependentRequired
	format contentEncoding contentMediaType contentSchema
	title description default deprecated readOnly writeOnly examples`)

// Keywords returns the keywords of JSON Schema 2020-12.
func Keywords() []string { return slices.Clone(keywords) }

// UnknownKeyword is a keyword that has no effect because JSON Schema does not define it.
type UnknownKeyword struct {
	At   string // JSON pointer to the schema that has it
	Name string
}

// Unknown returns the keywords of the schema that JSON Schema 2020-12 does not define, at most limit, parents first. A
// name that begins with x- is meant to be an extension. Documents to which the schema refers are not looked at, and
// neither is a schema that names another dialect.
func (s *Schema) Unknown(limit int) (all []UnknownKeyword) {
	doc, err := Decode(s.raw)
	if err != nil { // cannot happen: Compile has read it
		return nil
	}
	if root, _ := doc.(map[string]any); otherDialect(root["$schema"]) {
		return nil
	}
	Walk(doc, func(at string, members map[string]any) {
		for _, name := range slices.Sorted(maps.Keys(members)) {
			if len(all) < limit && !strings.HasPrefix(name, "x-") && !slices.Contains(keywords, name) {
				all = append(all, UnknownKeyword{at, name})
			}
		}
	})
	return all
}

// Position returns the line and the column of a member in the text of the schema. Both are 0 if it has no such member.
func (s *Schema) Position(at jsontext.Pointer) (line, column int) {
	d := jsontext.NewDecoder(bytes.NewReader(s.raw))
	for {
		if d.PeekKind() != '"' {
			if _, err := d.ReadToken(); err != nil {
				return 0, 0
			}
			continue
		}
		text, err := d.ReadValue()
		if err != nil {
			return 0, 0
		}
		if d.StackPointer() == at {
			before := s.raw[:d.InputOffset()-int64(len(text))]
			return bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')
		}
	}
}

// otherDialect reports whether the value of $schema is not the dialect 2020-12.
func otherDialect(named any) bool {
	dialect, is := named.(string)
	return is && strings.TrimSuffix(dialect, "#") != "https://json-schema.org/draft/2020-12/schema"
}
