package tokenstore

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// How often it is asked whether more was revoked than is known here, how long the answer may take, and how soon it is
// asked again without one, or where what is new has not come yet.
const (
	proveEvery = 200 * time.Millisecond
	proveTime  = 400 * time.Millisecond
	provePause = 10 * time.Millisecond
)

// latest is what the leader of the bucket said last: nothing is asked again while nothing was stored.
type latest struct {
	stored uint64 // the newest position
	counts uint64 // the newest position of a key or a revocation
}

// proveAll keeps up the lease of what is known, until ctx ends.
func (s *Store) proveAll(ctx context.Context) {
	for s.Prove(ctx) == nil && timer.Sleep(ctx, proveEvery) {
	}
}

// Prove returns when all that was revoked before it was called is known here, or with an error when ctx ends.
func (s *Store) Prove(ctx context.Context) error {
	tries := timer.Backoff{Pause: provePause, MaxPause: proveEvery, Try: proveTime}
	return tries.Until(ctx, func(ctx context.Context) (bool, error) {
		err := s.prove(ctx)
		return err == nil, err
	})
}

// prove asks the leader of the bucket for the newest entry, and extends the lease if it is known here: followers, and
// what is delivered, may be behind.
func (s *Store) prove(ctx context.Context) error {
	at := time.Now()
	stream, err := s.js.Stream(ctx, subjects.ControlStream)
	if err != nil {
		return err
	}
	stored := stream.CachedInfo().State.LastSeq
	s.mu.Lock()
	of := s.latest
	s.mu.Unlock()
	if of.stored != stored {
		if of, err = s.newest(ctx, stored); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest = of; s.shown < of.counts {
		s.latest = latest{} // it may be gone for its age, of which no position tells
		return fmt.Errorf("position %d of the bucket has not come yet: %w", of.counts, auth.ErrNotReady)
	}
	s.checker.Revoked.MarkFresh(at)
	return nil
}

// newest finds the newest entry that counts. All that was stored up to a position is looked at.
func (s *Store) newest(ctx context.Context, stored uint64) (latest, error) {
	of := latest{stored: stored}
	for _, filter := range []string{subjects.KeysAll, subjects.RevokedAll, subjects.RevokedActorsAll} {
		seq, err := s.last(ctx, filter)
		if err != nil {
			return of, err
		}
		of.counts = max(of.counts, seq)
	}
	return of, nil
}

// last asks for the position of the newest entry that matches; 0 where there is none.
func (s *Store) last(ctx context.Context, filter string) (seq uint64, err error) {
	body, err := json.Marshal(map[string]any{"last_by_subj": filter, "no_hdr": true})
	if err != nil {
		return 0, err
	}
	msg, err := s.js.Conn().RequestWithContext(ctx, jetstream.DefaultAPIPrefix+"STREAM.MSG.GET."+subjects.ControlStream,
		body)
	if err != nil {
		return 0, err
	}
	var a struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Seq uint64 `json:"seq"`
		} `json:"message"`
	}
	if err := json.Unmarshal(msg.Data, &a); err != nil {
		return 0, err
	}
	if a.Error != nil && bus.ErrorCode(a.Error) != bus.CodeNotFound {
		return 0, a.Error
	}
	return a.Message.Seq, nil
}
