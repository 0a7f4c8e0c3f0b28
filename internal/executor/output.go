package executor

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// chunkSink takes the chunks of a run. It opens the stream at the first chunk, because most runs have none.
type chunkSink struct {
	e       *Executor
	j       *job
	m       *tool.Manifest
	stream  Stream // nil before the first chunk
	dropped int
}

// Emit takes a chunk. It drops and counts the chunks of a tool that does not declare streaming, because callers rely on
// the declaration.
func (c *chunkSink) Emit(ctx context.Context, kind envelope.ChunkKind, data jsontext.Value) error {
	if !c.m.Capability.Streaming {
		c.dropped++
		return nil
	}
	if c.stream == nil {
		run := c.e.untilDue(c.j, &c.j.stream) // not the run of the tool, which ends when a chunk is refused
		c.stream = c.e.Streams.Open(run, c.j.state, c.j.attempt, c.j.fence, c.m.Limits.OutputBytes)
	}
	return c.stream.Emit(ctx, kind, data)
}

// stored waits until all chunks are stored, and returns their count and digest. It returns nil if there are none, or if
// their number is not known.
func (c *chunkSink) stored() (*envelope.Chunks, error) {
	if c.stream == nil {
		return nil, nil
	}
	ctx, stop := c.e.storing(c.j.stream, c.j)
	defer stop()
	chunks, err := c.stream.Close(ctx)
	if chunks.Count == 0 {
		return nil, err
	}
	return &chunks, err
}

// warn adds a warning about dropped chunks to the warnings of a run.
func (c *chunkSink) warn(warnings []string) []string {
	if c.dropped == 0 {
		return warnings
	}
	says := fmt.Sprintf("%d chunks were dropped: the tool does not declare streaming", c.dropped)
	return append(slices.Clone(warnings), says)
}
