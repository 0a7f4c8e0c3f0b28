package tool

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// DocumentSchema is the JSON Schema of a YAML document that is no manifest, such as policy/defaults.yaml. As in
// manifest.json, x-kind, x-hint and x-names are texts of error messages, and x-state says what Toolbus does with a
// field.
type DocumentSchema struct{ contract *contract }

// NewDocumentSchema compiles the schema of the documents with a name.
func NewDocumentSchema(name string, raw []byte) (*DocumentSchema, error) {
	c := &contract{}
	if err := json.Unmarshal(raw, &c.document); err != nil {
		return nil, err
	}
	return newDocumentSchema(name, c)
}

func newDocumentSchema(name string, c *contract) (*DocumentSchema, error) {
	raw, err := json.Marshal(c.document)
	if err != nil {
		return nil, err
	}
	c.schema, err = jsonschema.Compile(name, raw, nil)
	return &DocumentSchema{c}, err
}

// Fields returns the fields of the documents, sorted by name. Members of lists are below [].
func (s *DocumentSchema) Fields() []Field { return fieldsOf(s.contract.document) }

// Read reads a document. Its problems have file as the name of the file.
func (s *DocumentSchema) Read(file string, raw []byte) *Document {
	d := NewDocument(file)
	if !d.parse(raw) {
		return d
	}
	whole, err := json.Marshal(d.tree, json.Deterministic(true))
	if err != nil {
		d.report(place{}, reason(err), "write it as JSON would, or in quotes")
		d.tree = nil
		return d
	}
	d.conform(s.contract, whole)
	return d
}

// Document is a YAML document that was read against its schema: its value, the place of each part, and its problems.
type Document struct{ *source }

// NewDocument returns an empty document. Its problems have no line.
func NewDocument(file string) *Document { return &Document{newSource(file, documentWords())} }

// Decode decodes the document into v. Values with a wrong type, and values out of range, are left out.
func (d *Document) Decode(v any) error {
	if _, ok := d.tree.(map[string]any); !ok { // a problem of its own
		return nil
	}
	whole, err := json.Marshal(d.tree, json.Deterministic(true))
	if err != nil {
		return err
	}
	return json.Unmarshal(whole, v)
}

// Fail reports a problem with the value at a pointer, at most one for each value.
func (d *Document) Fail(at jsontext.Pointer, message, hint string) { d.fail(at, message, hint) }

// Problem returns a problem with the value at a pointer that only more than the document shows, and does not add it.
func (d *Document) Problem(at jsontext.Pointer, message, hint string) Problem {
	where := d.placeOf(at)
	return Problem{File: d.file, Line: where.line, Column: where.column, Message: message, Hint: hint}
}

// Problems returns all problems so far, sorted by place.
func (d *Document) Problems() Problems {
	sorted := slices.Clone(d.problems)
	sorted.sort()
	return sorted
}

// sort sorts problems by file and place.
func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// DidYouMean is the fix of an unknown name: the candidate that is most similar to it, or all candidates if none is.
func DidYouMean(word string, candidates []string) string { return didYouMean(word, candidates) }
