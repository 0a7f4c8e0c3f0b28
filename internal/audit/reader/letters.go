package reader

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/internal/form"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// DeadLetters returns all dead letters, oldest first. Messages that somebody else put into their
// stream are left out.
func DeadLetters(ctx context.Context, from Archive) ([]writer.DeadLetter, error) {
	letters := []writer.DeadLetter{}
	for msg, err := range from.Messages(ctx, subjects.DeadStream, Place{}, bus.QuietTime) {
		if err != nil {
			return nil, err
		}
		d, err := writer.ParseDeadLetter(msg.Data, msg.Seq)
		if form.Unreadable(err) {
			return nil, err
		}
		if err == nil {
			letters = append(letters, d)
		}
	}
	return letters, nil
}

// ErrNoLetter is the error of [DeadLetterAt] for a number that no dead letter has.
var ErrNoLetter = errors.New("`toolbus dead list` shows the dead letters that there are")

// DeadLetterAt returns the dead letter with a number, or an error that wraps [ErrNoLetter].
func DeadLetterAt(ctx context.Context, from Archive, seq uint64) (writer.DeadLetter, error) {
	if seq == 0 {
		return writer.DeadLetter{}, fmt.Errorf("dead letters are counted from 1: %w", ErrNoLetter)
	}
	for msg, err := range from.Messages(ctx, subjects.DeadStream, Place{After: seq - 1}, bus.QuietTime) {
		if err != nil {
			return writer.DeadLetter{}, err
		}
		if msg.Seq == seq {
			return writer.ParseDeadLetter(msg.Data, seq)
		}
		break
	}
	return writer.DeadLetter{}, fmt.Errorf("there is no dead letter %d: %w", seq, ErrNoLetter)
}
