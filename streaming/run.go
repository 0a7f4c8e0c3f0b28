package streaming

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// RunStream is a [Writer] whose errors implement [envelope.Fault]. Its methods have the concurrency rules of Writer.
type RunStream struct{ writer *Writer }

// NewRun returns the stream of the run with that subject. ctx must last until Close: the context of the tool may end
// before its chunks are stored.
func NewRun(ctx context.Context, store *Store, subject string, opts WriterOptions) RunStream {
	return RunStream{NewWriter(ctx, store, subject, opts)}
}

// Emit appends one chunk; see [Writer.Emit].
func (s RunStream) Emit(ctx context.Context, kind envelope.ChunkKind, data jsontext.Value) error {
	return faulty(s.writer.Emit(ctx, kind, data))
}

// Close waits until all chunks are stored, and returns their count and digest; see [Writer.Close].
func (s RunStream) Close(ctx context.Context) (envelope.Chunks, error) {
	chunks, err := s.writer.Close(ctx)
	return chunks, faulty(err)
}

// placed wraps an error of a Writer and implements [envelope.Fault].
type placed struct{ error }

func faulty(err error) error {
	if err == nil {
		return nil
	}
	return placed{err}
}

// Unwrap returns the error of the Writer.
func (f placed) Unwrap() error { return f.error }

// Fault returns the error with its code of the error taxonomy.
func (f placed) Fault() *envelope.Error {
	code, message, fix := envelope.CodeStoreFull, "", ""
	switch {
	case errors.Is(f, ErrChunkSize):
		code, message = envelope.CodeOutputLimit, "a chunk of the tool is larger than allowed"
		fix = fmt.Sprintf("report it to the tool's owner: write chunk, progress and log data of at most %d KiB each",
			envelope.MaxChunk>>10)
	case errors.Is(f, ErrOutputLimit):
		code = envelope.CodeOutputLimit
	case errors.Is(f, ErrInvalid):
		code = envelope.CodeToolProtocol
	}
	return envelope.NewError(code, message).WithFix(fix).
		WithCause(strings.TrimPrefix(f.Error(), "streaming: ")).WithEffect(envelope.EffectUnknown)
}
