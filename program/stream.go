package program

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/tool/process/protocol"
)

// ErrTooLong means that a line exceeds MaxLine, or its data MaxChunk. Nothing of the line has been written.
var ErrTooLong = errors.New("line too long")

// Stream writes the lines of one call. It is not safe for concurrent use. If a method cannot write, the executor no
// longer reads: the function should return that error. After ErrTooLong, or an error of the JSON encoder, it can go on.
type Stream struct {
	w       io.Writer
	written int64
}

// NewStream returns a Stream that writes to w, with one Write per line.
func NewStream(w io.Writer) *Stream { return &Stream{w: w} }

// Chunk writes one chunk of the result.
func (s *Stream) Chunk(data any) error { return s.data(protocol.LineChunk, data) }

// Progress writes the state of the work, which is not part of the result.
func (s *Stream) Progress(data any) error { return s.data(protocol.LineProgress, data) }

// Log writes a diagnostic for the caller, which is not part of the result.
func (s *Stream) Log(data any) error { return s.data(protocol.LineLog, data) }

// Written returns the number of bytes written so far. Tools use it to stay within their output limit.
func (s *Stream) Written() int64 { return s.written }

// Fits reports whether the terminal line of res has at most MaxLine bytes. It is false if res cannot be encoded.
func Fits(res Result) bool {
	line, err := encodeLine(newOutputLine(res))
	return err == nil && len(line) <= MaxLine
}

func newOutputLine(res Result) protocol.Output[any, SideEffect] {
	return protocol.Output[any, SideEffect]{
		Type: protocol.LineOutput, Output: res.Output, SideEffects: res.SideEffects, Warnings: res.Warnings,
	}
}

func newErrorLine(e *Error) protocol.Error[map[string]any] {
	return protocol.Error[map[string]any]{Type: protocol.LineError, Error: protocol.Failure[map[string]any]{
		Code: e.Code, Message: e.Message, Details: e.Details,
		Effect: string(cmp.Or(e.Effect, EffectUnknown)), RetryAfterMS: protocol.Milliseconds(e.RetryAfter.Milliseconds()),
	}}
}

func (s *Stream) data(kind string, data any) error {
	const around = len(`{"type":"","data":}`) + 1 // the line end
	return s.write(protocol.Data[any]{Type: kind, Data: data}, around+len(kind)+MaxChunk)
}

func (s *Stream) write(v any, limit int) error {
	line, err := encodeLine(v)
	if err != nil {
		return err
	}
	if len(line) > limit {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLong, len(line), limit)
	}
	n, err := s.w.Write(line)
	s.written += int64(n)
	if err != nil {
		return fmt.Errorf("write line: %w", err)
	}
	return nil
}

func encodeLine(v any) ([]byte, error) {
	line, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("encode line: %w", err)
	}
	return append(line, '\n'), nil
}
