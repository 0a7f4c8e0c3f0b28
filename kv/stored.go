package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// StoredEvent is an event as it is stored. The zero value is that there is none.
type StoredEvent struct {
	*jetstream.RawStreamMsg
	// End is where the log ends: behind the event, where the last message of the log is none of ours.
	End uint64
}

// Entry reads the event, of a partition. Where a log holds no event, but something else, the entry is empty but for
// where the log ends.
func (s StoredEvent) Entry(p subjects.Partition) (last call.Entry, err error) {
	if s.RawStreamMsg != nil {
		last, err = entry(s.RawStreamMsg)
	}
	if err == nil && (s.RawStreamMsg == nil || s.End > s.Sequence) {
		last.State.Partition, last.State.Seq = p, s.End
	}
	return last, err
}

// Reader reads what is stored of the call log. An error is never that there is nothing.
type Reader interface {
	// Last returns the last event of a log.
	Last(ctx context.Context, key subjects.Key) (StoredEvent, error)
	// At returns the event at a position.
	At(ctx context.Context, at call.Position) (StoredEvent, error)
}

// streams are the partitions of the log, and read them themselves.
type streams struct {
	parts  []jetstream.Stream
	passes func(instance string) bool // see [LogOptions]
}

func (s streams) replicas() int { return s.parts[0].CachedInfo().Config.Replicas }

// Last implements [Reader]. A request or a join, which dispatchers alone can write, is the last event of its log. Of a
// claim or a decision, the events before it decide whether the log allows it. Where the last message does not count,
// such as the marker of an operator's `nats kv del`, the newest event before it does, and the next write follows the
// message.
func (s streams) Last(ctx context.Context, key subjects.Key) (StoredEvent, error) {
	stream := s.parts[key.Partition]
	msg, err := stream.GetLastMsgForSubject(ctx, key.Filter())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return StoredEvent{}, nil
	}
	if err != nil {
		return StoredEvent{}, fmt.Errorf("read call log: %w", err)
	}
	e, err := DecodeEvent(msg.Subject, msg.Header)
	switch {
	case format.IsUnsupported(err) && !Passed(msg.Subject, s.passes):
		return StoredEvent{}, fmt.Errorf("%s at %d: %w", msg.Subject, msg.Sequence, err)
	case err == nil && (e.Kind == call.Requested || e.Kind == call.Joined):
		return StoredEvent{msg, msg.Sequence}, nil
	}
	good := err == nil
	log, err := fold(ctx, stream, key, msg.Sequence, s.passes, good)
	switch {
	case err != nil:
		return StoredEvent{}, err
	case good && !log.state.Bound():
		return StoredEvent{msg, msg.Sequence}, nil
	}
	return StoredEvent{log.last, msg.Sequence}, nil
}

// At implements [Reader].
func (s streams) At(ctx context.Context, at call.Position) (StoredEvent, error) {
	msg, err := s.parts[at.Partition].GetMsg(ctx, at.Seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return StoredEvent{}, nil
	}
	if err != nil {
		return StoredEvent{}, fmt.Errorf("read call log at %d: %w", at.Seq, err)
	}
	return StoredEvent{msg, msg.Sequence}, nil
}
