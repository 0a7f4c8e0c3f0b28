package tool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Field is one field of the manifest, as its schema describes it.
type Field struct {
	Name        string // such as limits.memory_mb_max
	Type        string // such as integer, or "pure | idempotent | …"
	Default     string // JSON, or ""
	State       string // enforced, inputs only, recorded or declared only; "" for a mapping whose members have their own
	Source      string // such as "000 §1"
	Description string
	Aliases     []string
}

// Fields returns the fields of the manifest, sorted by name. Members of lists and of functions are below [].
func Fields() ([]Field, error) {
	var doc map[string]any
	if err := json.Unmarshal(manifestSchema, &doc); err != nil {
		return nil, err
	}
	return fieldsOf(doc), nil
}

// fieldsOf returns the fields that a schema describes.
func fieldsOf(doc map[string]any) (all []Field) {
	aliases := map[jsontext.Pointer][]string{}
	for _, a := range aliasesOf(doc) {
		aliases[a.to] = append(aliases[a.to], named(a.from))
	}
	var visit func(at jsontext.Pointer, rule map[string]any)
	visit = func(at jsontext.Pointer, rule map[string]any) {
		visitFields(at, rule, func(at jsontext.Pointer, rule map[string]any) {
			f := fieldOf(at, rule)
			f.Aliases = aliases[at]
			all = append(all, f)
			for _, pattern := range member(rule, "patternProperties") {
				below, _ := pattern.(map[string]any)
				visit(at+"/[]", below)
			}
			if items := member(rule, "items"); items["properties"] != nil {
				visit(at+"/[]", items)
			}
		})
	}
	visit("", doc)
	return all
}

func fieldOf(at jsontext.Pointer, rule map[string]any) Field {
	f := Field{
		Name: named(at), State: textOf(rule["x-state"]), Source: textOf(rule["x-source"]),
		Description: textOf(rule["description"]), Type: strings.Join(wordsOf(rule["type"]), " | "),
	}
	if values := wordsOf(rule["enum"]); len(values) > 0 {
		f.Type = strings.Join(values, " | ")
	}
	if items := member(rule, "items"); items != nil {
		f.Type = "list of " + fieldOf(at, items).Type
	}
	if low, ok := rule["minimum"]; ok {
		f.Type += fmt.Sprintf(" %s–%s", plain(low), plain(rule["maximum"]))
	}
	if value, ok := rule["default"]; ok && f.Type != "object" {
		text, _ := json.Marshal(value) // it was decoded from JSON
		f.Default = string(text)
	}
	return f
}

// Value is one field of a manifest with its value.
type Value struct {
	Name  string         `json:"field"`
	Value jsontext.Value `json:"value"`
	State string         `json:"state"`
}

// Values returns the fields that a described manifest has, sorted by name, each with its state. A list is one value.
func Values(manifest jsontext.Value) ([]Value, error) {
	var doc, members map[string]any
	if err := json.Unmarshal(manifestSchema, &doc); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(manifest, &members); err != nil {
		return nil, err
	}
	var all []Value
	var visit func(at jsontext.Pointer, schema, value map[string]any) error
	visit = func(at jsontext.Pointer, schema, value map[string]any) error {
		for _, name := range sortedKeys(value) {
			rule, below := member(member(schema, "properties"), name), at.AppendToken(name)
			if inner, ok := value[name].(map[string]any); ok && member(rule, "properties") != nil {
				if err := visit(below, rule, inner); err != nil {
					return err
				}
				continue
			}
			raw, err := json.Marshal(value[name], json.Deterministic(true))
			if err != nil {
				return err
			}
			all = append(all, Value{named(below), raw, textOf(rule["x-state"])})
		}
		return nil
	}
	err := visit("", doc, members)
	return all, err
}

// LintDescription returns the problems of a tool as a dispatcher describes it: those of its manifest without the
// endpoint, which is not described. File is the tool id, and there are no lines.
func LintDescription(info envelope.ToolInfo, transports ...Transport) (Problems, error) {
	s := newSource(info.ToolID, manifestWords())
	if info.Manifest == nil {
		s.warn(place{}, "its dispatcher does not say what the manifest has", "ask again when all dispatchers are replaced")
		return s.problems, nil
	}
	if err := json.Unmarshal(info.Manifest, &s.tree); err != nil {
		return nil, fmt.Errorf("manifest of %s: %w", info.ToolID, err)
	}
	c, err := (&contracts{transports, map[string]*contract{}}).of(info.Transport)
	if err != nil {
		return nil, err
	}
	l := &toolLoader{source: s, contract: c}
	l.conform(l.contract, info.Manifest)
	for _, name := range info.DeclaredOnly {
		s.warn(place{}, name+" is declared only: it has no effect yet", declaredHint)
	}
	described, err := describedFunctions(info)
	return slices.Concat(s.problems, schemaWarnings(described, info.Listed != nil, info.ToolID)), err
}

// declaredHint is the fix of a field that is declared only.
const declaredHint = "docs/manifest.md says what each field does"
