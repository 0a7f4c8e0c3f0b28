package writer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/kv"
)

// WaitRecorded waits until the audit record holds every admission and decision that the call log holds now.
func WaitRecorded(ctx context.Context, js jetstream.JetStream) error {
	all, err := projectors(ctx, js)
	if err != nil {
		return fmt.Errorf("await the record: %w", err)
	}
	for _, p := range all {
		if err := p.waitRecorded(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *Projector) waitRecorded(ctx context.Context) error {
	calls, err := p.chain.js.Stream(ctx, p.part.Stream())
	if err != nil {
		return fmt.Errorf("await the record: %w", err)
	}
	end := uint64(0)
	for _, filter := range p.part.Recorded() {
		msg, err := calls.GetLastMsgForSubject(ctx, filter)
		switch {
		case err == nil:
			_, err := kv.DecodeEvent(msg.Subject, msg.Header)
			if err == nil || format.IsUnsupported(err) { // other messages are not recorded
				end = max(end, msg.Sequence)
			}
		case !errors.Is(err, jetstream.ErrMsgNotFound) && !errors.Is(err, nats.ErrBadHeaderMsg):
			return fmt.Errorf("await the record: %w", err)
		}
	}
	err = timer.Backoff{Pause: 20 * time.Millisecond}.Until(ctx, func(ctx context.Context) (bool, error) {
		_, err := p.resume(ctx)
		return err != nil || p.done.Seq >= end, err
	})
	if err == nil && p.done.Seq < end {
		err = fmt.Errorf("await the record: %w", ctx.Err())
	}
	return err
}
