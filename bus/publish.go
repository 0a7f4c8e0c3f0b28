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
// Make js with [Shared] if the process publishes often. Another js works, too, with the same errors, but costs
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

// SharedJetStream is a JetStream context whose messages share one inbox and one timer for acknowledgements, and whose
// reads are at most maxReads at a time. [Publish] and [Messages] use it. It is safe for concurrent use.
type SharedJetStream struct {
	jetstream.JetStream
	inbox *ackInbox
	reads *reads
}

// Shared returns js with a shared inbox for acknowledgements, which the first [Publish] opens, and with the
// limit maxReads. Close it when done. A connection needs one only.
func Shared(js jetstream.JetStream) *SharedJetStream {
	return &SharedJetStream{JetStream: js, inbox: newAckInbox(js.Conn()), reads: newReads(js.Conn())}
}

// Stream returns a stream whose GetMsg and GetLastMsgForSubject wait while maxReads reads are under way.
func (j *SharedJetStream) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := j.JetStream.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	return boundedStream{s, j.reads}, nil
}

// PublishAcked publishes msg as [Publish] does. Callers use Publish.
func (j *SharedJetStream) PublishAcked(ctx context.Context, msg *nats.Msg, answer time.Duration) (PubAck, error) {
	return j.inbox.publish(ctx, msg, answer)
}

// Close ends all waiting and later calls of [Publish] with [nats.ErrConnectionClosed]. It returns when the subscription
// and the timer have ended. The connection stays open. Further calls do nothing.
func (j *SharedJetStream) Close() { j.inbox.close() }
