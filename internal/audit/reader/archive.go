package reader

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/audit/writer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Source is where the record and the dead letters are read: the streams themselves ([Streams]), or dispatchers, which
// read them for whoever may not ([ViaDispatcher]). [Open] finds out which.
type Source interface {
	// State says what a stream holds.
	State(ctx context.Context, stream string) (State, error)
	// Messages yields what a stream holds from a place on, in order up to its present end, each of which has to come
	// within quiet after the one before was taken; or all that ever come, if quiet is 0.
	Messages(ctx context.Context, stream string, from StartAt, quiet time.Duration) iter.Seq2[Message, error]
	// WaitRecorded waits until the record holds every admission and decision that the call log holds now.
	WaitRecorded(ctx context.Context) error
	// Now is bus time.
	Now(ctx context.Context) (time.Time, error)
}

// StartAt is from where on a stream is read: behind a message, or from a time on; the zero value is its beginning.
type StartAt struct {
	After  uint64
	Since  time.Time
	Tenant string // only what is of this one; "" is all, and the dead letters are always all
}

// Message is a message of a stream.
type Message struct {
	Seq  uint64
	Time time.Time
	Data []byte
}

// State says what a stream holds: so many messages from one position to another, not all of which need be there.
type State struct {
	First, Last, Messages uint64
}

// Streams reads the streams. Its methods are safe for concurrent use.
func Streams(js jetstream.JetStream) Source { return streams{js} }

type streams struct{ js jetstream.JetStream }

func (d streams) State(ctx context.Context, stream string) (State, error) {
	s, err := d.js.Stream(ctx, stream)
	if err != nil {
		return State{}, fmt.Errorf("read %s: %w", stream, bus.MissingStreamError(err))
	}
	state := s.CachedInfo().State
	return State{state.FirstSeq, state.LastSeq, state.Msgs}, nil
}

func (d streams) Messages(ctx context.Context, stream string, from StartAt,
	quiet time.Duration) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for m, err := range bus.Messages(ctx, d.js, stream, from.config(stream), quiet, jetstream.PullMaxBytes(pullBytes)) {
			if err != nil {
				yield(Message{}, err)
				return
			}
			if !yield(Message{m.Seq, m.Time, m.Data()}, nil) {
				return
			}
		}
	}
}

func (p StartAt) config(stream string) (c jetstream.OrderedConsumerConfig) {
	switch {
	case p.After > 0:
		c = bus.StartAfter(p.After)
	case !p.Since.IsZero():
		c = jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &p.Since}
	}
	switch {
	case p.Tenant == "":
	case stream == subjects.AuditStream:
		c.FilterSubjects = subjects.AuditOfTenant(p.Tenant)
	case stream == subjects.DeniedStream:
		c.FilterSubjects = subjects.DeniedOfTenant(p.Tenant)
	}
	return c
}

func (d streams) WaitRecorded(ctx context.Context) error { return writer.WaitRecorded(ctx, d.js) }

func (d streams) Now(ctx context.Context) (time.Time, error) {
	clock, err := bus.NewClock(ctx, d.js, nil)
	if err != nil {
		return time.Time{}, err
	}
	return clock.Now(), nil
}
