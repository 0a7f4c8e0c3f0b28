package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Message is a message of a stream.
type Message struct {
	jetstream.Msg
	Seq  uint64 // its position
	Time time.Time
}

// StartAfter is the configuration of a reader that begins behind a position.
func StartAfter(seq uint64) jetstream.OrderedConsumerConfig {
	return jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq + 1}
}

// ReadTimeout is how long the rest of a stream is waited for: a server that is started again in between,
// and found again, takes some ten seconds.
const ReadTimeout = 30 * time.Second

// Messages yields the messages of a stream in order up to its present end, each of which has to come within quiet after
// the one before was taken; or all that ever come, if quiet is 0.
func Messages(ctx context.Context, js jetstream.JetStream, stream string, cfg jetstream.OrderedConsumerConfig,
	quiet time.Duration, pull ...jetstream.PullMessagesOpt) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		if err := consume(ctx, js, stream, cfg, quiet, yield, pull...); err != nil {
			yield(Message{}, fmt.Errorf("read %s: %w", stream, err))
		}
	}
}

// consume is Messages, and returns the error that ends them.
func consume(ctx context.Context, js jetstream.JetStream, stream string, cfg jetstream.OrderedConsumerConfig,
	quiet time.Duration, yield func(Message, error) bool, pull ...jetstream.PullMessagesOpt) error {
	follow := quiet == 0
	cons, err := js.OrderedConsumer(ctx, stream, cfg)
	if err != nil {
		return MissingStreamError(err)
	}
	info, err := cons.Info(ctx)
	if err != nil || info.NumPending == 0 && !follow {
		return err
	}
	it, err := cons.Messages(pull...)
	if err != nil {
		return err
	}
	defer it.Stop()
	for {
		msg, err := nextWithin(ctx, it, quiet)
		if follow && (errors.Is(err, context.Canceled) || errors.Is(err, jetstream.ErrMsgIteratorClosed)) {
			return nil // that is its end; whoever wants all must know that it was not
		}
		if err != nil {
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if !yield(Message{msg, meta.Sequence.Stream, meta.Timestamp}, nil) || !follow && meta.NumPending == 0 {
			return nil
		}
	}
}

// nextWithin waits for the next message, as long as it takes if quiet is 0.
func nextWithin(ctx context.Context, it jetstream.MessagesContext, quiet time.Duration) (jetstream.Msg, error) {
	if err := ctx.Err(); err != nil { // also if there is a message
		return nil, err
	}
	if quiet == 0 {
		return it.Next(jetstream.NextContext(ctx))
	}
	once, cancel := context.WithTimeout(ctx, quiet)
	defer cancel()
	msg, err := it.Next(jetstream.NextContext(once))
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("nothing came for %s, before the end: is the server still there?", quiet)
	}
	return msg, err
}

// MessageAt returns the message at seq. If its headers cannot be parsed, Toolbus did not write it, and the error is
// [jetstream.ErrMsgNotFound].
func MessageAt(ctx context.Context, stream jetstream.Stream, seq uint64) (*jetstream.RawStreamMsg, error) {
	msg, err := stream.GetMsg(ctx, seq)
	if errors.Is(err, nats.ErrBadHeaderMsg) {
		err = jetstream.ErrMsgNotFound
	}
	return msg, err
}
