package deadletter

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit/reader"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// DeadLetters returns all dead letters, oldest first. It skips messages in the stream that are not dead letters.
func DeadLetters(ctx context.Context, from reader.Source) ([]Message, error) {
	letters := []Message{}
	for msg, err := range from.Messages(ctx, subjects.DeadStream, reader.StartAt{}, bus.ReadTimeout) {
		if err != nil {
			return nil, err
		}
		d, err := Parse(msg.Data, msg.Seq)
		if format.IsUnsupported(err) {
			return nil, err
		}
		if err == nil {
			letters = append(letters, d)
		}
	}
	return letters, nil
}

// ErrNoDeadLetter is wrapped by the error of [DeadLetterAt] if there is no dead letter with the number.
var ErrNoDeadLetter = errors.New("`toolbus dead list` shows the dead letters that there are")

// DeadLetterAt returns the dead letter at sequence seq. The error wraps [ErrNoDeadLetter] if the stream has no message
// there.
func DeadLetterAt(ctx context.Context, from reader.Source, seq uint64) (Message, error) {
	if seq == 0 {
		return Message{}, fmt.Errorf("dead letters are counted from 1: %w", ErrNoDeadLetter)
	}
	for msg, err := range from.Messages(ctx, subjects.DeadStream, reader.StartAt{After: seq - 1}, bus.ReadTimeout) {
		if err != nil {
			return Message{}, err
		}
		if msg.Seq == seq {
			return Parse(msg.Data, seq)
		}
		break
	}
	return Message{}, fmt.Errorf("there is no dead letter %d: %w", seq, ErrNoDeadLetter)
}
