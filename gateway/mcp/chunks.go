package mcp

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// maxPieces is the largest number of bytes of chunks in an answer. A model could not use more.
const maxPieces = 1 << 20

// pieces collects the chunks of data of a call, which are part of its result in MCP.
type pieces struct {
	fence uint64 // fence of the run of the chunks
	text  strings.Builder
	more  int // chunks that were left out
}

// chunk adds a chunk. A chunk with another fence voids all before it.
func (p *pieces) chunk(c envelope.Chunk) {
	if c.Fence != p.fence {
		*p = pieces{fence: c.Fence}
	}
	switch piece := textOf(c.Data); {
	case c.Kind != envelope.ChunkData:
	case p.more > 0 || p.text.Len()+len(piece) > maxPieces:
		p.more++
	default:
		p.text.WriteString(piece + "\n")
	}
}

// before inserts the chunks as a block before the output.
func (p *pieces) before(res *reply) {
	text := p.text.String()
	if p.more > 0 {
		text += fmt.Sprintf("(%d more were left out)\n", p.more)
	}
	if text != "" {
		res.content = append([]jsontext.Value{block(strings.TrimSuffix(text, "\n"))}, res.content...)
	}
}
