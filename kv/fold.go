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

// ErrOverlong means that a log has more events than [maxFold]. No build writes so many: an executor has filled the log.
// It cannot be read until enough of its events have expired.
var ErrOverlong = errors.New("the log of the call has too many events")

// maxFold is the number of events that are read of one log, each by a request of its own.
const maxFold = 1000

// Passed reports whether an event that cannot be read stops nobody, because of the instance that wrote it: a claim or
// a decision harms no other call. passes nil is for no instance.
func Passed(subject string, passes func(instance string) bool) bool {
	e, err := subjects.ParseEvent(subject)
	return err == nil && e.Instance != "" && passes != nil && passes(e.Instance)
}

// Before returns the log as it was before the event at seq, as far as [call.State.Allows] has to know it to judge that
// event. The zero State is that of a log of which nothing is left. passes is that of [LogOptions].
func Before(
	ctx context.Context, stream jetstream.Stream, key subjects.Key, seq uint64, passes func(instance string) bool,
) (call.State, error) {
	log, err := fold(ctx, stream, key, seq-1, passes, true)
	return log.state, err
}

// folded is a log up to a position.
type folded struct {
	state call.State
	last  *jetstream.RawStreamMsg // the event that made the state; nil where there is none
}

// fold reads the events of a log up to a position, and passes over what the log does not allow. It may stop at a
// request which says that the log is not bound: then each event alone says whether it counts. Of a log with more than
// maxFold events it returns [ErrOverlong].
func fold(
	ctx context.Context, stream jetstream.Stream, key subjects.Key, through uint64, passes func(instance string) bool,
	mayStop bool,
) (log folded, err error) {
	seq := uint64(1)
	for range maxFold {
		msg, err := stream.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(key.Filter()))
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && msg.Sequence > through {
			return log, nil
		}
		if err != nil {
			return folded{}, fmt.Errorf("read call log: %w", err)
		}
		e, err := DecodeEvent(msg.Subject, msg.Header)
		switch {
		case form.Unreadable(err) && !Passed(msg.Subject, passes):
			return folded{}, fmt.Errorf("%s at %d: %w", msg.Subject, msg.Sequence, err)
		case err == nil && log.state.Allows(e) == nil:
			log = folded{call.Fold(e, msg.Sequence), msg}
		}
		if mayStop && err == nil && e.Kind == call.Requested && !log.state.Bound() {
			return log, nil
		}
		seq = msg.Sequence + 1
	}
	return folded{}, fmt.Errorf("read call log: %w", ErrOverlong)
}
