package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// PubAck says where a message is stored.
type PubAck struct {
	Sequence  uint64
	Duplicate bool // the stream had it already, by its message id
}

// Publish sends msg once, and waits for the answer of the server, for no longer than answer and no longer than ctx: the
// error is that of ctx or [context.DeadlineExceeded] then, and the message may be stored yet. An answer that refuses it
// wraps a [jetstream.APIError]; [jetstream.ErrNoStreamResponse] says that no stream takes it. Other errors are those of
// the connection. msg is not kept.
//
// A js that was not made [With] answers by itself, with the same errors: those who publish once in a while, as clients
// do, need no inbox of their own.
func Publish(ctx context.Context, js jetstream.JetStream, msg *nats.Msg, answer time.Duration) (PubAck, error) {
	if p, ok := js.(publisher); ok {
		return p.PublishAcked(ctx, msg, answer)
	}
	ctx, cancel := context.WithTimeout(ctx, answer)
	defer cancel()
	ack, err := js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
	if err != nil {
		return PubAck{}, err
	}
	return PubAck{Sequence: ack.Sequence, Duplicate: ack.Duplicate}, nil
}

type publisher interface {
	PublishAcked(ctx context.Context, msg *nats.Msg, answer time.Duration) (PubAck, error)
}

// AckingJetStream is one over which [Publish] is cheap. It is safe for concurrent use.
type AckingJetStream struct {
	jetstream.JetStream
	inbox *ackInbox
}

// WithSharedAcks returns js with an inbox of its own, which is opened when something is published. Close it when done.
func WithSharedAcks(js jetstream.JetStream) *AckingJetStream {
	return &AckingJetStream{JetStream: js, inbox: newAckInbox(js.Conn())}
}

// PublishAcked is [Publish].
func (j *AckingJetStream) PublishAcked(ctx context.Context, msg *nats.Msg, answer time.Duration) (PubAck, error) {
	return j.inbox.publish(ctx, msg, answer)
}

// Close ends all that is being published with [nats.ErrConnectionClosed], and returns when nothing of it runs any more.
// The connection stays open. Closing it again does nothing.
func (j *AckingJetStream) Close() { j.inbox.close() }
