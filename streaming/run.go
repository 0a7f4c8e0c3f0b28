package streaming

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// RunStream is the [Writer] of one run, whose errors say of themselves what they are in the taxonomy.
type RunStream struct{ writer *Writer }

// NewRun returns the stream of a run. Its ctx is that of the run: a tool's own may end before its chunks are stored.
func NewRun(ctx context.Context, store *Store, subject string, opts WriterOptions) RunStream {
	return RunStream{NewWriter(ctx, store, subject, opts)}
}

// Emit takes a chunk.
func (s RunStream) Emit(ctx context.Context, kind envelope.ChunkKind, data jsontext.Value) error {
	return faulty(s.writer.Emit(ctx, kind, data))
}

// Close waits until all chunks are stored, and says what there is of them.
func (s RunStream) Close(ctx context.Context) (envelope.Chunks, error) {
	chunks, err := s.writer.Close(ctx)
	return chunks, faulty(err)
}

// placed is a stream's error with its place in the taxonomy.
type placed struct{ error }

func faulty(err error) error {
	if err == nil {
		return nil
	}
	return placed{err}
}

// Unwrap returns the stream's own error.
func (f placed) Unwrap() error { return f.error }

// Fault says what the error is in the taxonomy.
func (f placed) Fault() *envelope.Error {
	code := envelope.CodeStoreFull
	switch {
	case errors.Is(f, ErrOutputLimit), errors.Is(f, ErrChunkSize):
		code = envelope.CodeOutputLimit
	case errors.Is(f, ErrInvalid):
		code = envelope.CodeToolProtocol
	}
	return envelope.NewError(code, "").WithCause(f.Error()).WithEffect(envelope.EffectUnknown)
}
