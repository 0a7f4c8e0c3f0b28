package replica

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

const (
	// askEvery is the pause between two questions of Follow, and the longest after a failed one.
	askEvery = 200 * time.Millisecond
	// AskTime is the time limit of one question.
	AskTime = 400 * time.Millisecond
	// askPause is the first pause after a failed question, and after a change that met another one.
	askPause = 10 * time.Millisecond
)

// Replica reads and changes the entries of a bucket whose values are of type T. Make one with [Open]. Its methods are
// safe for concurrent use, and several processes may use the same bucket.
type Replica[T any] struct {
	*Bucket
	values string
	life   func(T) time.Duration
}

// Entry is the state of a subject, as the leader of the bucket knew it.
type Entry[T any] struct {
	Value    *T        // nil before the first, and after it was deleted
	Revision uint64    // stream sequence of the last message of the subject; 0 before the first
	Created  time.Time // when the server stored the value
	At       time.Time // when the question was sent whose answer this is, by the clock of this process
	// Held is true if the server cannot read the entry. Value is that of its copy, or nil if
	// that cannot be read either: the value is then unknown.
	Held bool
}

// Unknown reports whether the entry exists, and neither it nor its copy can be read.
func (e Entry[T]) Unknown() bool { return e.Held && e.Value == nil }

// Fresh reports whether this process may still rely on the entry.
func (e Entry[T]) Fresh() bool { return timer.Age(e.At) <= timer.LeaseTime }

// Open returns a Replica of the entries of a stream. values names them in errors. life returns how long the server
// keeps a value, in whole seconds. 0 is until it is replaced, and nil is 0 for all values. copies keeps a second copy
// of each entry, unless it is nil.
func Open[T any](
	ctx context.Context, js jetstream.JetStream, stream, values string, life func(T) time.Duration, copies *Copies,
) (*Replica[T], error) {
	b, err := OpenBucket(ctx, js, stream, copies)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", values, err)
	}
	return &Replica[T]{b, values, life}, nil
}

// Last asks the leader of a stream for the last message whose subject matches a filter. It does not ask other servers,
// which may be behind. The message is nil if no message matches.
func Last(ctx context.Context, s jetstream.Stream, filter string) (*jetstream.RawStreamMsg, error) {
	msg, err := s.GetLastMsgForSubject(ctx, filter)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return msg, err
}

// Read asks the leader for an entry, and compares it with its copy.
func (r *Replica[T]) Read(ctx context.Context, subject string) (e Entry[T], err error) {
	return r.read(ctx, subject, false)
}

func (r *Replica[T]) read(ctx context.Context, subject string, trusting bool) (e Entry[T], err error) {
	e.At = time.Now()
	msg, held, err := r.find(ctx, subject, trusting)
	if e.Held = held; err != nil || msg == nil {
		return e, err
	}
	if e.Revision = msg.Sequence; len(msg.Data) == 0 { // somebody has deleted it by hand
		return e, nil
	}
	e.Value, e.Created = new(T), msg.Time
	if err := format.Unmarshal(format.Entry, msg.Data, e.Value); err != nil {
		return e, fmt.Errorf("%s, revision %d: %w", r.values, msg.Sequence, err)
	}
	return e, nil
}

// Ask is [Replica.Read] with the time limit [AskTime]. It compares an entry that has not changed every half second.
func (r *Replica[T]) Ask(ctx context.Context, subject string) (Entry[T], error) {
	ctx, cancel := context.WithTimeout(ctx, AskTime)
	defer cancel()
	return r.read(ctx, subject, true)
}

// ErrUnchanged is the error of an edit that leaves the entry as it is.
var ErrUnchanged = errors.New("the entry is so already")

// Change replaces the value of an entry by what edit returns for the stored entry, and returns the new one. It calls
// edit again if another process changed the entry meanwhile. If edit returns [ErrUnchanged], Change stores nothing,
// and returns the entry that it read and false. Any other error of edit ends it. It stores nothing after the deadline
// of ctx.
//
// record, if not nil, is called with the first change before that is stored. An error of it ends Change.
func (r *Replica[T]) Change(
	ctx context.Context, subject string, edit func(before Entry[T]) (T, error), record func(before *T, after T) error,
) (e Entry[T], changed bool, err error) {
	err = timer.Backoff{Pause: askPause, MaxPause: askEvery}.Until(ctx, func(ctx context.Context) (bool, error) {
		if e, err = r.Read(ctx, subject); err != nil {
			return true, err
		}
		after, err := edit(e)
		if err == nil && record != nil {
			err, record = record(e.Value, after), nil
		}
		if err != nil {
			return true, err
		}
		e, err = r.replace(ctx, subject, after, e.Revision, e.Held)
		changed = err == nil
		return !bus.HasErrorCode(err, bus.CodeWrongLast, bus.CodeUnderWay), err
	})
	if errors.Is(err, ErrUnchanged) {
		err = nil
	}
	return e, changed, err
}

// Replace stores v if the revision of the entry is still the given one. Otherwise the error has the code
// [bus.CodeWrongLast]. After any other error, v may be stored.
func (r *Replica[T]) Replace(ctx context.Context, subject string, v T, revision uint64) (e Entry[T], err error) {
	return r.replace(ctx, subject, v, revision, false)
}

// replace is Replace, also of an entry that is held.
func (r *Replica[T]) replace(
	ctx context.Context, subject string, v T, revision uint64, held bool,
) (e Entry[T], err error) {
	msg := &nats.Msg{Subject: subject, Header: nats.Header{}}
	if msg.Data, err = format.Marshal(format.Entry, v); err != nil {
		return e, err
	}
	if r.life != nil {
		if life := r.life(v); life > 0 {
			msg.Header.Set(jetstream.MsgTTLHeader, strconv.Itoa(int(life/time.Second)))
		}
	}
	at := time.Now()
	ack, err := r.put(ctx, msg, revision, held)
	if err != nil {
		return e, err
	}
	return Entry[T]{Value: &v, Revision: ack.Sequence, At: at, Held: held}, nil
}

// Delete deletes the message with the given revision. It needs no room in the bucket. It returns an error if the entry
// has changed since.
func (r *Replica[T]) Delete(ctx context.Context, revision uint64) error {
	return r.stream.DeleteMsg(ctx, revision)
}

// Follow calls confirm until it returns nil, and then five times a second until ctx ends.
func Follow(ctx context.Context, confirm func(context.Context) error) {
	for Confirm(ctx, confirm) == nil && timer.Sleep(ctx, askEvery) {
	}
}

// Confirm calls ask until it returns nil, with growing pauses of up to 200 ms. It returns the last error when ctx
// ends.
func Confirm(ctx context.Context, ask func(context.Context) error) error {
	return timer.Backoff{Pause: askPause, MaxPause: askEvery}.Until(ctx, func(ctx context.Context) (bool, error) {
		err := ask(ctx)
		return err == nil, err
	})
}
