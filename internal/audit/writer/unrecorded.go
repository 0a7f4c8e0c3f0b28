package writer

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// FirstUnrecorded returns the oldest event of the call log that must be recorded and is not yet, or nil if there is
// none.
func FirstUnrecorded(ctx context.Context, js jetstream.JetStream) (oldest *jetstream.RawStreamMsg, err error) {
	all, err := projectors(ctx, js)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		msg, err := p.firstUnrecorded(ctx)
		if err != nil {
			return nil, err
		}
		if oldest == nil || msg != nil && msg.Time.Before(oldest.Time) {
			oldest = msg
		}
	}
	return oldest, nil
}

func (p *Projector) firstUnrecorded(ctx context.Context) (oldest *jetstream.RawStreamMsg, err error) {
	if _, err := p.resume(ctx); err != nil {
		return nil, err
	}
	calls, err := p.chain.js.Stream(ctx, p.part.Stream())
	if err != nil {
		return nil, fmt.Errorf("call log: %w", err)
	}
	for _, kind := range p.part.Recorded() {
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
