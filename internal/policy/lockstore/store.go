package lockstore

import (
	"context"
	"log/slog"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Store reads and writes the safety locks, and keeps a board up to date. Its methods are safe for concurrent use.
// Several processes may use the same bucket.
type Store struct {
	Board *lock.Board
	locks *replica.Replica[entry]
	log   *slog.Logger
}

// Open returns a Store. Its board is stale until [Store.Run] has read the locks. copies may be nil.
func Open(ctx context.Context, js jetstream.JetStream, copies *replica.Copies, log *slog.Logger) (*Store, error) {
	locks, err := replica.Open[entry](ctx, js, subjects.ControlStream, "safety locks", nil, copies)
	if err != nil {
		return nil, err
	}
	return &Store{lock.NewBoard(), locks, log}, nil
}

// entry is the content of the entry of the bucket.
type entry struct {
	Locks   []envelope.Lock `json:"locks"`
	Request string          `json:"request,omitzero"` // id of the last request
	Changed bool            `json:"changed,omitzero"` // it has changed the locks
}

func (e *entry) locks() []envelope.Lock {
	if e == nil {
		return nil
	}
	return e.Locks
}

// unknown is the only lock while nobody knows which locks are in force.
var unknown = envelope.Lock{
	LockTarget: envelope.LockTarget{All: true}, By: "dispatchers",
	Reason: "the safety locks in force cannot be read: see which are on record, set them, and clear this one",
}

// inForce returns the locks of an entry.
func inForce(e replica.Entry[entry]) []envelope.Lock {
	if e.Unknown() {
		return []envelope.Lock{unknown}
	}
	return e.Value.locks()
}

func (e *entry) request() string {
	if e == nil {
		return ""
	}
	return e.Request
}

// Run keeps the board up to date until ctx ends. While the bucket cannot be read, the board becomes stale.
func (s *Store) Run(ctx context.Context) { replica.Follow(ctx, s.Refresh) }

// Refresh returns nil as soon as the board has all locks that were stored before the call. It returns an error when
// ctx ends.
func (s *Store) Refresh(ctx context.Context) error {
	failing := false
	return replica.Confirm(ctx, func(ctx context.Context) error {
		e, err := s.locks.Ask(ctx, subjects.Locks)
		if err == nil {
			s.Board.Learn(inForce(e), e.At)
			return nil
		}
		if !failing && ctx.Err() == nil {
			s.log.Warn("the safety locks cannot be read: calls are refused until they can", "err", err)
		}
		failing = true
		return err
	})
}
