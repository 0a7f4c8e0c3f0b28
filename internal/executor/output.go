package executor

import (
	"context"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// chunkSink takes what a run emits. It opens a stream when the first chunk comes: most runs have none.
type chunkSink struct {
	e       *Executor
	j       *job
	m       *tool.Manifest
	stream  Stream // nil before the first chunk
	dropped int
}

// Emit takes a chunk. Of a tool that declares no streaming it takes none: callers go by that.
func (c *chunkSink) Emit(ctx context.Context, kind envelope.ChunkKind, data jsontext.Value) error {
	if !c.m.Capability.Streaming {
		c.dropped++
		return nil
	}
	if c.stream == nil {
		run := c.e.untilDue(c.j, &c.j.stream) // that of the tool ends, too, when a chunk is refused
		c.stream = c.e.Streams.Open(run, c.j.state, c.j.attempt, c.j.fence, c.m.Limits.OutputBytes)
	}
	return c.stream.Emit(ctx, kind, data)
}

// stored waits until all chunks are stored, and returns count and digest of the stored ones; nil if there are none, or
// if their number is not known.
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

// warn adds to the warnings of a run what was not stored of it.
func (c *chunkSink) warn(warnings []string) []string {
	if c.dropped == 0 {
		return warnings
	}
	says := fmt.Sprintf("%d chunks were dropped: the tool does not declare streaming", c.dropped)
	return append(slices.Clone(warnings), says)
}
