package app

import (
	"context"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/streaming"
)

// countedFrames is the largest number of answers of the store of chunks in which the chunks of one run are counted.
const countedFrames = 4

// trace returns the events of a call, with the number of stored chunks of each run.
func (d *dispatcherParts) trace(
	ctx context.Context, from call.Sender, q envelope.CallRef,
) (envelope.TraceResponse, *envelope.Error) {
	r, s, refusal := d.dispatcher.Traced(ctx, from, q)
	if refusal != nil {
		return r, refusal
	}
	source := streaming.NewStoreSource(d.executors.Chunks, func(r streaming.Run) string {
		a, _ := s.Attempt(r.Attempt)
		return chunkSubject(d.Identity, s, a, r.Fence)
	})
	for i := range r.Events {
		if e := &r.Events[i]; e.Kind == envelope.TraceRun {
			e.Chunks, e.ChunksMore = countChunks(ctx, source, streaming.Run{Attempt: e.Attempt, Fence: e.Fence})
		}
	}
	return r, nil
}

// countChunks counts the stored chunks of a run by kind. more means that it has not counted all. Chunks that cannot be
// read, or have expired, are not counted.
func countChunks(
	ctx context.Context, source streaming.Source, run streaming.Run,
) (kinds map[envelope.ChunkKind]int64, more bool) {
	at := streaming.Position{Run: run}
	for range countedFrames {
		frame, err := source.Fetch(ctx, at, bus.MaxChunkBytes)
		if err != nil || frame.Len() == 0 {
			return kinds, err != nil && kinds != nil
		}
		if kinds == nil {
			kinds = map[envelope.ChunkKind]int64{}
		}
		for kind, n := range frame.Kinds() {
			kinds[kind] += n
		}
		at.Index = frame.First() + frame.Len()
	}
	return kinds, true
}
