package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// PubAck is the server's acknowledgement of a published message.
type PubAck struct {
	Sequence  uint64 // of the message in its stream
	Duplicate bool   // the stream already had a message with this Nats-Msg-Id, and dropped this one
}

// Publish sends msg once and waits for the acknowledgement of the server until the duration answer is over or ctx ends.
// Then the error is [context.DeadlineExceeded] or the error of ctx, and the server may still store the message. If the
// server refuses the message, the error wraps a [jetstream.APIError]. [jetstream.ErrNoStreamResponse] means that no
// stream has the subject. Other errors are those of the connection. Publish does not keep msg.
//
// Make js with [WithSharedAcks] if the process publishes often. Another js works, too, with the same errors, but costs
// more for each message.
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

// AckingJetStream is a JetStream context whose messages share one inbox and one timer for acknowledgements. [Publish]
// uses it. It is safe for concurrent use.
type AckingJetStream struct {
	jetstream.JetStream
	inbox *ackInbox
}

// WithSharedAcks returns js with a shared inbox for acknowledgements, which the first [Publish] opens. Close it when
// done.
func WithSharedAcks(js jetstream.JetStream) *AckingJetStream {
	return &AckingJetStream{JetStream: js, inbox: newAckInbox(js.Conn())}
}

// PublishAcked publishes msg as [Publish] does. Callers use Publish.
func (j *AckingJetStream) PublishAcked(ctx context.Context, msg *nats.Msg, answer time.Duration) (PubAck, error) {
	return j.inbox.publish(ctx, msg, answer)
}

// Close ends all waiting and later calls of [Publish] with [nats.ErrConnectionClosed]. It returns when the subscription
// and the timer have ended. The connection stays open. Further calls do nothing.
func (j *AckingJetStream) Close() { j.inbox.close() }
