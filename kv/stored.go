package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/internal/form"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Stored is an event as it is stored. The zero value is that there is none.
type Stored struct {
	*jetstream.RawStreamMsg
	// End is where the log ends: behind the event, where the last message of the log is none of ours.
	End uint64
}

// Entry reads the event, of a partition. Where a log holds no event, but something else, the entry is empty but for
// where the log ends.
func (s Stored) Entry(p subjects.Part) (last call.Entry, err error) {
	if s.RawStreamMsg != nil {
		last, err = entry(s.RawStreamMsg)
	}
	if err == nil && (s.RawStreamMsg == nil || s.End > s.Sequence) {
		last.State.Part, last.State.Seq = p, s.End
	}
	return last, err
}

// Reader reads what is stored of the call log. An error is never that there is nothing.
type Reader interface {
	// Last returns the last event of a log.
	Last(ctx context.Context, key subjects.Key) (Stored, error)
	// At returns the event at a position of a partition.
	At(ctx context.Context, p subjects.Part, seq uint64) (Stored, error)
}

// streams are the partitions of the log, and read them themselves.
type streams []jetstream.Stream

func (s streams) replicas() int { return s[0].CachedInfo().Config.Replicas }

// Last implements [Reader].
func (s streams) Last(ctx context.Context, key subjects.Key) (Stored, error) {
	msg, err := s[key.Part].GetLastMsgForSubject(ctx, key.Filter())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Stored{}, nil
	}
	if err != nil {
		return Stored{}, fmt.Errorf("read call log: %w", err)
	}
	switch _, err := entry(msg); {
	case form.Unreadable(err):
		return Stored{}, err
	case err != nil:
		return s.scan(ctx, key, msg)
	}
	return Stored{msg, msg.Sequence}, nil
}

// scan reads a log whose last message is none of ours, such as the marker of an operator's
// `nats kv del`: the newest event before it counts, and the next write follows the intruder.
func (s streams) scan(ctx context.Context, key subjects.Key, intruder *jetstream.RawStreamMsg) (Stored, error) {
	last := Stored{End: intruder.Sequence}
	for seq := uint64(1); ; {
		msg, err := s[key.Part].GetMsg(ctx, seq, jetstream.WithGetMsgSubject(key.Filter()))
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && msg.Sequence > intruder.Sequence {
			return last, nil
		}
		if err != nil {
			return Stored{}, fmt.Errorf("read call log: %w", err)
		}
		switch _, err := entry(msg); {
		case form.Unreadable(err):
			return Stored{}, err
		case err == nil:
			last.RawStreamMsg = msg
		}
		seq = msg.Sequence + 1
	}
}

// At implements [Reader].
func (s streams) At(ctx context.Context, p subjects.Part, seq uint64) (Stored, error) {
	msg, err := s[p].GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Stored{}, nil
	}
	if err != nil {
		return Stored{}, fmt.Errorf("read call log at %d: %w", seq, err)
	}
	return Stored{msg, msg.Sequence}, nil
}
