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

// Source reads the audit record and the dead letters: from the streams with consumers ([Streams]), by direct gets
// ([DirectGets]), or through dispatchers ([ViaDispatcher]). [Open] returns the one that the permissions allow.
type Source interface {
	// State returns the range of a stream and its number of messages.
	State(ctx context.Context, stream string) (State, error)
	// Messages yields the messages of a stream in order, starting at from, up to the end that the stream has when the last
	// one arrives. Each message must arrive within quiet after the previous one was taken. If quiet is 0, Messages waits
	// for new messages until ctx ends.
	Messages(ctx context.Context, stream string, from StartAt, quiet time.Duration) iter.Seq2[Message, error]
	// WaitRecorded waits until the audit record holds every admission and decision that the call log holds now.
	WaitRecorded(ctx context.Context) error
	// Now returns the bus time.
	Now(ctx context.Context) (time.Time, error)
}

// StartAt is the place in a stream from which to read: after a sequence, or from a time on. The zero value is the
// beginning.
type StartAt struct {
	After  uint64
	Since  time.Time
	Tenant string // yields only records of this tenant; "" is all tenants; dead letters are not filtered
}

// Message is a stored message of a stream.
type Message struct {
	Seq  uint64
	Time time.Time
	Data []byte
}

// State is the first and last sequence of a stream and its number of messages. Sequences in between may be missing.
type State struct {
	First, Last, Messages uint64
}

// Streams returns a Source that reads the streams with consumers. Its methods are safe for concurrent use.
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
		for m, err := range bus.Messages(ctx, d.js, stream, from.config(stream), quiet) {
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
	case stream == subjects.SurplusStream:
		c.FilterSubjects = subjects.SurplusOfTenant(p.Tenant)
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
