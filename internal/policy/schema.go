package policy

import (
	_ "embed" // the schemas of the documents
	"fmt"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

var (
	//go:embed roles.json
	rolesSchema []byte
	//go:embed lanes.json
	lanesSchema []byte
	//go:embed tool_registry.json
	toolRegistrySchema []byte
)

// Document is one of the three documents of a set.
type Document struct {
	Name   string // such as roles
	File   string // its place in a folder
	Schema []byte // its JSON Schema (2020-12), for editors and other validators
}

// AllDocuments returns the three documents with their schemas.
func AllDocuments() []Document {
	return []Document{
		{"roles", RolesFile, rolesSchema}, {"lanes", LanesFile, lanesSchema},
		{"tool_registry", ToolRegistryFile, toolRegistrySchema},
	}
}

// Fields returns the fields of the document, sorted by name.
func (d Document) Fields() ([]tool.Field, error) {
	schema, err := d.compile()
	if err != nil {
		return nil, err
	}
	return schema.Fields(), nil
}

func (d Document) compile() (*tool.DocumentSchema, error) {
	schema, err := tool.NewDocumentSchema(d.File, d.Schema)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", d.File, err)
	}
	return schema, nil
}

// read reads a document against its schema, and decodes into v what conforms.
func (d Document) read(raw []byte, v any) (*tool.Document, error) {
	schema, err := d.compile()
	if err != nil {
		return nil, err
	}
	read := schema.Read(d.File, raw)
	if err := read.Decode(v); err != nil {
		return nil, fmt.Errorf("%s: %w", d.File, err)
	}
	return read, nil
}
