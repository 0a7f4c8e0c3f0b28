package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Message is a message of a stream with its stream sequence and the time at which the server stored it.
type Message struct {
	jetstream.Msg
	Seq  uint64
	Time time.Time
}

// StartAfter returns the configuration of an ordered consumer that starts with the message after seq.
func StartAfter(seq uint64) jetstream.OrderedConsumerConfig {
	return jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq + 1}
}

// page returns the number of bytes that [Messages] asks of the server at a time: the largest message, with its subject.
func page(nc *nats.Conn) int { return int(nc.MaxPayload()) + envelope.MaxHeaders }

// ReadTimeout is the usual quiet of [Messages]. The restart of a server and the reconnect take about 10 s.
const ReadTimeout = 30 * time.Second

// Messages yields the messages of a stream in order, up to the end that the stream has when the last one arrives. It
// yields an error, and ends, if the next message takes longer than quiet, or if ctx ends.
//
// If quiet is 0, Messages does not end at the end of the stream, but waits for new messages. It then ends without an
// error when ctx is cancelled.
//
// It asks the server for no more bytes at a time than one message may have. If js was made by [Shared], it is one of
// its maxPages until it ends, so its consumer must not read pages over the same connection. One that waits for new
// messages is not counted: a process has few of those, and none is of calls with their bodies.
//
// If cfg has a NamePrefix, Messages deletes its consumers when it ends. The prefix must be unique. Otherwise the server
// keeps them for five minutes, and a stream permits some hundreds of consumers, while a large list takes more pages.
func Messages(ctx context.Context, js jetstream.JetStream, stream string, cfg jetstream.OrderedConsumerConfig,
	quiet time.Duration) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		if cfg.NamePrefix != "" {
			defer dropConsumers(ctx, js, stream, cfg.NamePrefix)
		}
		if err := consume(ctx, js, stream, cfg, quiet, yield); err != nil {
			yield(Message{}, fmt.Errorf("read %s: %w", stream, err))
		}
	}
}

// dropTime is the time for consumers to be deleted.
const dropTime = 500 * time.Millisecond

func dropConsumers(ctx context.Context, js jetstream.JetStream, stream, prefix string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropTime)
	defer cancel()
	for _, n := range []string{"_1", "_2"} { // nats.go creates one for the stream state and one for the messages
		_ = js.DeleteConsumer(ctx, stream, prefix+n) // the server deletes it later
	}
}

// consume calls yield for each message as [Messages] does, and returns the error that ends them.
func consume(ctx context.Context, js jetstream.JetStream, stream string, cfg jetstream.OrderedConsumerConfig,
	quiet time.Duration, yield func(Message, error) bool) error {
	follow := quiet == 0
	if j, ok := js.(*SharedJetStream); ok && !follow {
		done, err := j.reads.beginPage(ctx)
		if err != nil {
			return err
		}
		defer done()
	}
	cons, err := js.OrderedConsumer(ctx, stream, cfg)
	if err != nil {
		return MissingStreamError(err)
	}
	info, err := cons.Info(ctx)
	if err != nil || info.NumPending == 0 && !follow {
		return err
	}
	it, err := cons.Messages(jetstream.PullMaxBytes(page(js.Conn())))
	if err != nil {
		return err
	}
	defer it.Stop()
	for {
		msg, err := nextWithin(ctx, it, quiet)
		if follow && (errors.Is(err, context.Canceled) || errors.Is(err, jetstream.ErrMsgIteratorClosed)) {
			return nil // the usual end of a follower; a reader up to the end gets the error: it is incomplete
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

// nextWithin waits for the next message for at most quiet, or without limit if quiet is 0.
func nextWithin(ctx context.Context, it jetstream.MessagesContext, quiet time.Duration) (jetstream.Msg, error) {
	if err := ctx.Err(); err != nil { // Next might return a buffered message first
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

// MessageAt returns the message with the stream sequence seq. The error is [jetstream.ErrMsgNotFound] if the stream has
// no such message. It is the same if the headers of the message cannot be parsed: Toolbus did not write it.
func MessageAt(ctx context.Context, stream jetstream.Stream, seq uint64) (*jetstream.RawStreamMsg, error) {
	msg, err := stream.GetMsg(ctx, seq)
	if errors.Is(err, nats.ErrBadHeaderMsg) {
		err = jetstream.ErrMsgNotFound
	}
	return msg, err
}
