package tokenstore

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// latest is the last answer of the leader of the bucket. It stays valid while the bucket stores no new entry.
type latest struct {
	stored uint64 // the last position in the bucket
	counts uint64 // the position of the newest key or revocation
}

// Prove returns nil as soon as the verifier has all revocations that were stored before the call. It returns an error
// when ctx ends. [Store.Run] must be running.
func (s *Store) Prove(ctx context.Context) error { return replica.Confirm(ctx, s.prove) }

// prove asks the leader of the bucket for the newest key or revocation, and renews the lease if the store has read up
// to it. It does not ask replicas, which may be behind.
func (s *Store) prove(ctx context.Context) error {
	at := time.Now()
	ctx, cancel := context.WithTimeout(ctx, replica.AskTime)
	defer cancel()
	stream, err := s.js.Stream(ctx, subjects.ControlStream)
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	stored := info.State.LastSeq
	s.mu.Lock()
	of, other := s.latest, stored < s.shown || !info.Created.Equal(s.made)
	s.mu.Unlock()
	if other { // it was made again, or an old backup was put in its place
		timer.Notify(s.remade)
		return fmt.Errorf("the bucket is not the one that was read: %w", auth.ErrNotReady)
	}
	if of.stored != stored {
		if of, err = newest(ctx, stream); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest = of; s.shown < of.counts {
		s.latest = latest{} // the entry may have expired meanwhile: the next attempt asks again
		return fmt.Errorf("position %d of the bucket has not come yet: %w", of.counts, auth.ErrNotReady)
	}
	s.checker.Revoked.MarkFresh(at)
	return nil
}

// newest asks for the position of the newest key or revocation.
func newest(ctx context.Context, control jetstream.Stream) (latest, error) {
	of := latest{stored: control.CachedInfo().State.LastSeq}
	for _, filter := range []string{subjects.KeysAll, subjects.RevokedAll, subjects.RevokedActorsAll} {
		msg, err := replica.Last(ctx, control, filter)
		if err != nil {
			return of, err
		}
		if msg != nil {
			of.counts = max(of.counts, msg.Sequence)
		}
	}
	return of, nil
}
