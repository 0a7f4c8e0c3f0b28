package mcp

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// maxPieces is how many bytes of chunks are handed on with an answer: a model reads no more.
const maxPieces = 1 << 20

// pieces collects what a tool streams, which in MCP is part of the result.
type pieces struct {
	fence uint64 // of the run that they are of
	text  strings.Builder
	more  int // chunks that were left out
}

// chunk takes one. Those of a run that is made again are void.
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

// before puts what was streamed before the output.
func (p *pieces) before(res *reply) {
	text := p.text.String()
	if p.more > 0 {
		text += fmt.Sprintf("(%d more were left out)\n", p.more)
	}
	if text != "" {
		res.content = append([]jsontext.Value{block(strings.TrimSuffix(text, "\n"))}, res.content...)
	}
}
