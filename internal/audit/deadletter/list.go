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

// DeadLetters returns all dead letters, oldest first. Messages that somebody else put into their
// stream are left out.
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

// ErrNoDeadLetter is the error of [DeadLetterAt] for a number that no dead letter has.
var ErrNoDeadLetter = errors.New("`toolbus dead list` shows the dead letters that there are")

// DeadLetterAt returns the dead letter with a number, or an error that wraps [ErrNoDeadLetter].
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
