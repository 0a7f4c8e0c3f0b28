package writer

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// FirstUnrecorded returns the oldest event that is not on record yet; nil when all are.
func FirstUnrecorded(ctx context.Context, js jetstream.JetStream) (oldest *jetstream.RawStreamMsg, err error) {
	n, err := bus.Partitions(ctx, js)
	if err != nil {
		return nil, err
	}
	for p := range n {
		msg, err := unrecordedIn(ctx, js, subjects.Partition(p))
		if err != nil {
			return nil, err
		}
		if oldest == nil || msg != nil && msg.Time.Before(oldest.Time) {
			oldest = msg
		}
	}
	return oldest, nil
}

func unrecordedIn(ctx context.Context, js jetstream.JetStream,
	part subjects.Partition) (oldest *jetstream.RawStreamMsg, err error) {
	p := newProjector(js, part)
	if _, err := p.resume(ctx); err != nil {
		return nil, err
	}
	calls, err := js.Stream(ctx, part.Stream())
	if err != nil {
		return nil, fmt.Errorf("call log: %w", err)
	}
	for _, kind := range part.Recorded() {
		msg, err := calls.GetMsg(ctx, p.done.Seq+1, jetstream.WithGetMsgSubject(kind))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("call log: %w", err)
		}
		if oldest == nil || msg.Sequence < oldest.Sequence {
			oldest = msg
		}
	}
	return oldest, nil
}
