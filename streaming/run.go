package streaming

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// RunStream takes what one run emits. It opens a [Writer] when the first chunk comes: most runs have none.
type RunStream struct {
	ctx     context.Context // of the run: a tool's own may end before its chunks are stored
	store   *Store
	limit   int64
	subject func() string
	writer  *Writer // nil before the first chunk
}

// NewRun returns the stream of a run, of at most limit bytes; subject is asked once, where there are chunks.
func NewRun(ctx context.Context, store *Store, limit int64, subject func() string) *RunStream {
	return &RunStream{ctx: ctx, store: store, limit: limit, subject: subject}
}

// Emit takes a chunk. Its error says of itself what it is in the taxonomy.
func (s *RunStream) Emit(ctx context.Context, kind envelope.ChunkKind, data jsontext.Value) error {
	if s.writer == nil {
		s.writer = NewWriter(s.ctx, s.store, s.subject(), WriterOptions{MaxBytes: s.limit})
	}
	return faulty(s.writer.Emit(ctx, kind, data))
}

// Close waits until all chunks are stored, and says what there is of them.
func (s *RunStream) Close(ctx context.Context) (envelope.Chunks, error) {
	if s.writer == nil {
		return envelope.Chunks{}, nil
	}
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
