package policy

import (
	"bytes"
	"fmt"
	"runtime"

	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// partBytes is the least size of a part of a document, see [ParseParts].
const partBytes = 64 << 10

// ParseParts is [Parse] with half of the memory for a large registry, which it reads in parts. The problems that it
// returns, and those that are found in its result later, have no places: call Parse for them.
func ParseParts(d Documents) (*Set, error) { return parse(d, splitTools(d.ToolRegistry)) }

// readParts reads the parts of a registry one after another.
func (p *parser) readParts(of Document, parts [][]byte) error {
	p.registry = tool.NewDocument(of.File)
	schema, err := of.compile()
	if err != nil {
		return err
	}
	for _, part := range parts {
		var some struct {
			Tools []Entry `json:"tools"`
		}
		doc := schema.Read(of.File, part)
		if err := doc.Decode(&some); err != nil {
			return fmt.Errorf("%s: %w", of.File, err)
		}
		p.set.Entries = append(p.set.Entries, some.Tools...)
		if len(parts) == 1 || len(doc.Problems()) > 0 {
			p.registry = doc
			break
		}
		runtime.GC() // the garbage of a part is hundreds of times as large as the part
	}
	return nil
}

// splitTools splits a registry, written as `tools:` with one item after another, into documents with some of the items
// each. It returns a short one as a whole, and one that is written in another way.
func splitTools(registry []byte) (parts [][]byte) {
	const head = "tools:"
	var part []byte
	indent := -1 // of the items
	for line := range bytes.Lines(registry) {
		text := bytes.TrimLeft(line, " ")
		at, item := len(line)-len(text), bytes.HasPrefix(text, []byte("- "))
		switch empty := len(bytes.TrimSpace(line)) == 0 || text[0] == '#'; {
		case empty:
		case part == nil && string(bytes.TrimRight(line, " \n")) == head:
			part = []byte(head + "\n")
			continue
		case part == nil, indent < 0 && !item, at < indent, at == indent && !item:
			return [][]byte{registry}
		case indent < 0:
			indent = at
		case at == indent && len(part) >= partBytes:
			parts = append(parts, part)
			part = []byte(head + "\n")
		}
		if part != nil {
			part = append(part, line...)
		}
	}
	if parts = append(parts, part); len(parts) == 1 {
		return [][]byte{registry}
	}
	return parts
}
