package kv

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
)

// question makes watch check p, unless an older place already waits to be checked. Callers hold f.mu.
func (f *Follower) question(p place) {
	if p.seq == 0 {
		return
	}
	select {
	case f.doubts <- p:
	default:
	}
}

// check returns ErrStreamRolledBack if the log has lost the event at p. An expired event is not lost. If the server
// does not answer, check returns p to be checked again.
func (f *Follower) check(ctx context.Context, p place) (doubt place, lost error) {
	if p.seq == 0 {
		return p, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookBehind)
	defer cancel()
	lost, err := f.lost(ctx, p)
	if err != nil {
		return p, nil
	}
	return place{}, lost
}

func (f *Follower) lost(ctx context.Context, p place) (lost, err error) {
	stream, err := f.js.Stream(ctx, f.part.Stream())
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return errLogGone, nil
	}
	if err != nil {
		return nil, err
	}
	end := stream.CachedInfo().State.LastSeq
	if end < p.seq {
		return fmt.Errorf("%w: it ends at %d, and had been read up to %d", ErrStreamRolledBack, end, p.seq), nil
	}
	msg, err := bus.MessageAt(ctx, stream, p.seq)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case !msg.Time.Equal(p.at):
		return fmt.Errorf("%w: there is another event at %d", ErrStreamRolledBack, p.seq), nil
	}
	return nil, nil
}
