package program

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/tool/process/protocol"
)

// ErrTooLong is a line above MaxLine, or its data above MaxChunk; nothing of it has been written.
var ErrTooLong = errors.New("line too long")

// Stream writes the lines of one call. It is not safe for concurrent use. An error of one of
// its methods that is not ErrTooLong means that nobody listens any more: the function should
// return it.
type Stream struct {
	w       io.Writer
	written int64
}

// NewStream returns a Stream that writes to w, one write for each line.
func NewStream(w io.Writer) *Stream { return &Stream{w: w} }

// Chunk emits one piece of the result.
func (s *Stream) Chunk(data any) error { return s.data(protocol.LineChunk, data) }

// Progress says how far the work is.
func (s *Stream) Progress(data any) error { return s.data(protocol.LineProgress, data) }

// Log emits something for whoever watches the call.
func (s *Stream) Log(data any) error { return s.data(protocol.LineLog, data) }

// Written is the number of bytes written so far, for tools that have to stay within their output
// limit.
func (s *Stream) Written() int64 { return s.written }

// Fits says whether the terminal line of res stays within MaxLine.
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
		Effect: string(cmp.Or(e.Effect, EffectUnknown)), RetryAfterMS: e.RetryAfter.Milliseconds(),
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
