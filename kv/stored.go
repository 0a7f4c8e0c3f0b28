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

// StoredEvent is an event as it is stored. The zero value means that there is no event.
type StoredEvent struct {
	*jetstream.RawStreamMsg
	// End is the sequence of the last message of the log. It is higher than that of the event if the last message is
	// not a valid event.
	End uint64
	// marked means that the last message is not an event at all, but a delete marker.
	marked bool
	// refused means that it is a marker by which an operator has ended the key, see [Log.Repair].
	refused bool
}

// valid returns the sequence of the last valid event, or that of a delete marker. An operator writes one after a log
// that was damaged.
func (s StoredEvent) valid() uint64 {
	switch {
	case s.marked:
		return s.End
	case s.RawStreamMsg == nil:
		return 0
	}
	return s.Sequence
}

// Entry decodes the event, which is in partition p. If the log has messages but no valid event, only the partition and
// the end of the log are set in the Entry.
func (s StoredEvent) Entry(p subjects.Partition) (last call.Entry, err error) {
	if s.RawStreamMsg != nil {
		last, err = entry(s.RawStreamMsg)
	}
	if err == nil && (s.RawStreamMsg == nil || s.End > s.Sequence) {
		last.State.Partition, last.State.Seq = p, s.End
	}
	return last, err
}

// Reader reads stored events of the call log. If an event does not exist, its methods return the zero StoredEvent and
// no error.
type Reader interface {
	// Last returns the last valid event of a log.
	Last(ctx context.Context, key subjects.Key) (StoredEvent, error)
	// At returns the event at a position.
	At(ctx context.Context, at call.Position) (StoredEvent, error)
}

// streams is a Reader that reads the streams of the partitions directly.
type streams struct {
	parts  []jetstream.Stream
	passes func(instance string) bool // see [LogOptions]
}

func (s streams) replicas() int { return s.parts[0].CachedInfo().Config.Replicas }

// Last implements [Reader]. If the last message is a request or a join, which only dispatchers can write, it is the
// last event. Whether a claim or a decision is valid depends on the newest request, which holds the state of the log
// before it, and on the events between. So a read costs the same, however many attempts a log has. If the last message
// is not valid, such as the delete marker of `nats kv del`, the newest valid event before it counts, and End is the
// sequence of the message.
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
	case msg.Subject == key.Marker() && msg.Header.Get(subjects.HeaderRepair) != "":
		refused := msg.Header.Get(subjects.HeaderRepair) == repairRefuse
		return StoredEvent{End: msg.Sequence, marked: true, refused: refused}, nil
	case format.IsUnsupported(err) && !passed(msg.Subject, s.passes):
		return StoredEvent{}, fmt.Errorf("%s at %d: %w", msg.Subject, msg.Sequence, err)
	case err == nil && (e.Kind == call.Requested || e.Kind == call.Joined):
		return StoredEvent{RawStreamMsg: msg, End: msg.Sequence}, nil
	}
	good := err == nil
	request, err := stream.GetLastMsgForSubject(ctx, key.Requests())
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound): // it has expired
		request = nil
	case err != nil:
		return StoredEvent{}, fmt.Errorf("read call log: %w", err)
	case request.Sequence > msg.Sequence: // it was written meanwhile
		return StoredEvent{RawStreamMsg: request, End: request.Sequence}, nil
	}
	log, err := fold(ctx, stream, key, request, msg.Sequence, s.passes, good)
	if good && err == nil && !log.state.Bound() {
		if log.event.Kind != call.Requested || log.state.Allows(e) == nil { // its request has expired, or allows it
			return StoredEvent{RawStreamMsg: msg, End: msg.Sequence}, nil
		}
		log, err = fold(ctx, stream, key, request, msg.Sequence, s.passes, false)
	}
	if err != nil {
		return StoredEvent{}, err
	}
	marked := msg.Header.Get(subjects.HeaderEvent) == ""
	return StoredEvent{RawStreamMsg: log.last, End: msg.Sequence, marked: marked}, nil
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
	return StoredEvent{RawStreamMsg: msg, End: msg.Sequence}, nil
}
