package kv

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// checkServerPosition asks the server whether it has an event that has not been observed, and takes a new consumer
// where it had the last time, too, and nothing came since. An error means that there is no log any more: its server
// came again without what it had stored.
func (f *Follower) checkServerPosition(ctx context.Context, see func(jetstream.Msg)) error {
	read := f.position()
	more, err := f.more(ctx, f.stream, read)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return errLogGone
	case err != nil: // nothing is admitted either
		f.uptime.away()
	case f.stands(read, more):
		f.listenAgain(ctx, read, see)
	default:
		f.delivery.still = still{}
	}
	return nil
}

// more asks whether there is an event after read.
func (f *Follower) more(ctx context.Context, stream jetstream.Stream, read uint64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, lookBehind)
	defer cancel()
	_, err := stream.GetMsg(ctx, read+1, jetstream.WithGetMsgSubject(f.part.All()))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return false, nil
	case err != nil && !errors.Is(err, nats.ErrBadHeaderMsg): // which is there
		return false, err
	}
	return true, nil
}

// stands notes what the server said of what comes after read, and reports whether more should have come
// meanwhile, and has not. What was announced to come and is not there any more has been lost.
func (f *Follower) stands(read uint64, more bool) bool {
	now := time.Now()
	f.uptime.heard(now)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.read != read:
		return false
	case !more:
		f.waiting = Lag{}
		return false
	}
	f.waiting.Known(read+1, f.uptime.at(now))
	return !f.busy
}

// still says for how many looks in a row a follower has stood at a place with more to come.
type still struct {
	at    uint64
	looks int
}

// A follower that stands still for so many looks takes another consumer, which then has one look more.
const (
	standsStill = 2
	justTaken   = -1
)

// listenAgain takes another consumer if it is time. Where there cannot be one, the next look tries again.
func (f *Follower) listenAgain(ctx context.Context, read uint64, see func(jetstream.Msg)) {
	if f.delivery.still.at != read {
		f.delivery.still = still{at: read}
	}
	if f.delivery.still.looks++; f.delivery.still.looks < standsStill {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookBehind)
	defer cancel()
	if f.consume(ctx, see) == nil {
		f.delivery.still.looks = justTaken
	}
}

// Served returns, at the local time now, how long the server has answered this follower in all. It is the clock of
// [Follower.Behind]: it stands still while the server does not answer.
func (f *Follower) Served(now time.Time) time.Duration { return f.uptime.at(now) }

// Behind returns, at the local time now, for how long the follower has known of the oldest event that it has not
// observed; 0 if it knows of none. Time during which the server did not answer does not count, because no call could be
// admitted. The timestamps of events do not matter.
func (f *Follower) Behind(now time.Time) time.Duration {
	served := f.uptime.at(now)
	f.mu.Lock()
	defer f.mu.Unlock()
	return served - f.waiting.Since(served)
}

// catchUpEvery is the interval at which CatchUp checks the position of the follower.
const catchUpEvery = 10 * time.Millisecond

// CatchUp waits until the follower has observed all events that are in the log at the time of the call. It returns the
// error of ctx if ctx ends first.
func (f *Follower) CatchUp(ctx context.Context) error {
	stream, err := f.js.Stream(ctx, f.part.Stream())
	if err != nil {
		return fmt.Errorf("follow the call log: %w", err)
	}
	for end := stream.CachedInfo().State.LastSeq; f.position() < end; {
		if more, err := f.more(ctx, stream, f.position()); err == nil && !more { // the last ones have expired
			return nil
		}
		if !timer.Sleep(ctx, catchUpEvery) {
			return ctx.Err()
		}
	}
	return nil
}
