package lockstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// readEvery is the pause between reads of the locks, readTime the time limit of one read, and readPause the first pause
// after a failed read.
const (
	readEvery = 200 * time.Millisecond
	readTime  = 400 * time.Millisecond
	readPause = 10 * time.Millisecond
)

// Store reads and writes the safety locks, and keeps a board up to date. Its methods are safe for concurrent use.
// Several processes may use the same bucket.
type Store struct {
	Board  *lock.Board
	js     jetstream.JetStream
	bucket jetstream.Stream
	log    *slog.Logger
}

// Open returns a Store. Its board is stale until [Store.Run] has read the locks.
func Open(ctx context.Context, js jetstream.JetStream, log *slog.Logger) (*Store, error) {
	bucket, err := js.Stream(ctx, subjects.ControlStream)
	if err != nil {
		return nil, fmt.Errorf("safety locks: %w", err)
	}
	return &Store{lock.NewBoard(), js, bucket, log}, nil
}

// entry is the content of the entry of the bucket.
type entry struct {
	Locks []envelope.Lock `json:"locks"`
}

// Run keeps the board up to date until ctx ends. While the bucket cannot be read, the board becomes stale.
func (s *Store) Run(ctx context.Context) {
	for s.Refresh(ctx) == nil && timer.Sleep(ctx, readEvery) {
	}
}

// Refresh returns nil as soon as the board has all locks that were stored before the call. It returns an error when ctx
// ends.
func (s *Store) Refresh(ctx context.Context) error {
	tries := timer.Backoff{Pause: readPause, MaxPause: readEvery, Try: readTime}
	failing := false
	return tries.Until(ctx, func(ctx context.Context) (bool, error) {
		at := time.Now()
		locks, _, err := s.read(ctx)
		if err != nil {
			if !failing && ctx.Err() == nil {
				s.log.Warn("the safety locks cannot be read: calls are refused until they can", "err", err)
			}
			failing = true
			return false, err
		}
		s.Board.Learn(locks, at)
		return true, nil
	})
}

// read returns the locks from the leader of the bucket, and the position of their entry, or 0 without one. It does
// not ask replicas, which may be behind.
func (s *Store) read(ctx context.Context) ([]envelope.Lock, uint64, error) {
	msg, err := s.bucket.GetLastMsgForSubject(ctx, subjects.Locks)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	}
	var e entry
	if err := format.Unmarshal(format.Entry, msg.Data, &e); err != nil {
		return nil, 0, fmt.Errorf("safety locks: %w", err)
	}
	return e.Locks, msg.Sequence, nil
}

// edit changes the locks. change returns the new locks, or false to leave them as they are. It is called again if
// another process changed them meanwhile. edit returns the locks in force afterwards.
func (s *Store) edit(
	ctx context.Context, change func([]envelope.Lock) ([]envelope.Lock, bool, error),
) (locks []envelope.Lock, changed bool, err error) {
	err = timer.Backoff{Pause: readPause, MaxPause: readEvery}.Until(ctx, func(ctx context.Context) (bool, error) {
		before, seq, err := s.read(ctx)
		if err != nil {
			return true, err
		}
		if locks, changed, err = change(before); err != nil || !changed {
			return true, err
		}
		err = s.write(ctx, locks, seq)
		return !bus.HasErrorCode(err, bus.CodeWrongLast, bus.CodeUnderWay), err
	})
	return locks, changed, err
}

// write stores the locks, if the position of their entry is still seq.
func (s *Store) write(ctx context.Context, locks []envelope.Lock, seq uint64) error {
	data, err := format.Marshal(format.Entry, entry{locks})
	if err != nil {
		return err
	}
	_, err = s.js.Publish(ctx, subjects.Locks, data, jetstream.WithExpectLastSequencePerSubject(seq))
	return err
}
