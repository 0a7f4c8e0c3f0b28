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
// yields an error, and ends, if the next message takes longer than quiet, or if ctx ends. If the server cannot read the
// messages that remain, the error says so and comes within 3 s.
//
// If quiet is 0, Messages does not end at the end of the stream, but waits for new messages. It then ends without an
// error when ctx is cancelled.
//
// It asks the server for no more bytes at a time than one message may have. If js was made by [Shared], it is one of
// its maxPages until it ends, so its consumer must not read pages over the same connection. One that waits for new
// messages is not counted: a process has few of those, and none is of calls with their bodies.
//
// Messages makes another consumer if the server has lost one, or messages on their way to it: after a reconnect, a lost
// request, and two heartbeats that did not come. The ordered consumer of nats.go does so, too, but waits 10 s for each
// answer, whatever the context.
//
// If cfg has a NamePrefix, Messages deletes its consumers when it ends. The prefix must be unique. Otherwise the server
// keeps them for a minute, and a stream permits some hundreds of consumers, while a large list takes more pages.
func Messages(ctx context.Context, js jetstream.JetStream, stream string, cfg jetstream.OrderedConsumerConfig,
	quiet time.Duration) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		r := &reader{js: js, stream: stream, cfg: cfg, quiet: quiet}
		if err := r.read(ctx, yield); err != nil {
			yield(Message{}, fmt.Errorf("read %s: %w", stream, err))
		}
	}
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
