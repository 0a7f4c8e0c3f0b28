package kv

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// ErrOverlong means that a log has more than 1,000 events after its newest request. No build writes that many, so an
// executor has flooded the log. It cannot be read until enough of its events have expired.
var ErrOverlong = errors.New("the log of the call has too many events")

// maxFold is the largest number of events that fold reads from one log. Each one takes a request.
const maxFold = 1000

// passed reports whether readers may skip an event that they cannot decode: it is a claim or a decision, which affects
// only its own call, and passes returns true for the instance that wrote it. If passes is nil, the result is false.
func passed(subject string, passes func(instance string) bool) bool {
	by := subjects.Writer(subject)
	return by != "" && passes != nil && passes(by)
}

// Before returns the state of the log before the event at seq, with all that [call.State.Allows] needs to check that
// event. It returns the zero State if no earlier event is left. For passes see [LogOptions].
func Before(
	ctx context.Context, stream jetstream.Stream, key subjects.Key, seq uint64, passes func(instance string) bool,
) (call.State, error) {
	log, err := fold(ctx, stream, key, nil, seq-1, passes, false)
	return log.state, err
}

// folded is a log up to a position.
type folded struct {
	state     call.State
	event     call.Event              // that made the state
	last      *jetstream.RawStreamMsg // the same as it is stored; nil where there is none
	undecoded int                     // the newest attempt with an event that cannot be decoded; 0 if there is none
}

// fold reads the events of a log from a request, or from its start if that is nil, up to a position. It passes over
// what the log does not allow. It may stop at a request which says that the log is not bound: most events of such a log
// can be judged by a request. An event of an executor that cannot be decoded leaves its mark on the attempt, see
// [call.Attempt]. If there are more than maxFold events, it returns [ErrOverlong].
func fold(
	ctx context.Context, stream jetstream.Stream, key subjects.Key, from *jetstream.RawStreamMsg, through uint64,
	passes func(instance string) bool, mayStop bool,
) (log folded, err error) {
	seq, msg := uint64(1), from
	for range maxFold {
		if msg == nil {
			msg, err = stream.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(key.Filter()))
		}
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && msg.Sequence > through {
			return log.marked(), nil
		}
		if err != nil {
			return folded{}, fmt.Errorf("read call log: %w", err)
		}
		e, err := DecodeEvent(msg.Subject, msg.Header)
		passed := err != nil && passed(msg.Subject, passes)
		switch {
		case format.IsUnsupported(err) && !passed:
			return folded{}, fmt.Errorf("%s at %d: %w", msg.Subject, msg.Sequence, err)
		case passed && !errors.Is(err, call.ErrForeign):
			log.spoil(msg.Subject)
		case err == nil && log.state.Allows(e) == nil:
			log.state, log.event, log.last = call.Fold(e, msg.Sequence), e, msg
		}
		switch {
		case mayStop && err == nil && e.Kind == call.Requested && !log.state.Bound():
			return log, nil
		case msg.Sequence == through:
			return log.marked(), nil
		}
		seq, msg = msg.Sequence+1, nil
	}
	return folded{}, fmt.Errorf("read call log: %w", ErrOverlong)
}

// spoil notes that an executor wrote an event under a subject that cannot be decoded.
func (f *folded) spoil(subject string) {
	e, err := subjects.ParseEvent(subject)
	if a, ok := f.state.Attempt(e.Attempt); err == nil && ok && a.Open() {
		f.undecoded = e.Attempt
	}
}

// marked returns f with the mark of an event that cannot be decoded, if its attempt is open, also in the event itself:
// so the next event carries it.
func (f folded) marked() folded {
	a, ok := f.state.Attempt(f.undecoded)
	if !ok || !a.Open() || a.Undecoded {
		return f
	}
	f.state, f.event.State = f.state.Undecoded(a.N), f.event.State.Undecoded(a.N)
	msg := *f.last
	msg.Header = maps.Clone(msg.Header)
	msg.Header[subjects.HeaderEvent] = []string{EncodeEvent(f.event)}
	f.last = &msg
	return f
}
