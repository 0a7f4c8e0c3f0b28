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

// proveEvery is the pause between proofs that all revocations are known here, proveTime the time limit of one attempt,
// and provePause the first pause after a failed attempt.
const (
	proveEvery = 200 * time.Millisecond
	proveTime  = 400 * time.Millisecond
	provePause = 10 * time.Millisecond
)

// latest is the last answer of the leader of the bucket. It stays valid while the bucket stores no new entry.
type latest struct {
	stored uint64 // the last position in the bucket
	counts uint64 // the position of the newest key or revocation
}

// proveAll renews the lease of the revocations until ctx ends.
func (s *Store) proveAll(ctx context.Context) {
	for s.Prove(ctx) == nil && timer.Sleep(ctx, proveEvery) {
	}
}

// Prove returns nil as soon as the verifier has all revocations that were stored before the call. It returns an error
// when ctx ends. [Store.Run] must be running.
func (s *Store) Prove(ctx context.Context) error {
	tries := timer.Backoff{Pause: provePause, MaxPause: proveEvery, Try: proveTime}
	return tries.Until(ctx, func(ctx context.Context) (bool, error) {
		err := s.prove(ctx)
		return err == nil, err
	})
}

// prove asks the leader of the bucket for the newest key or revocation, and renews the lease if the store has read up
// to it. It does not ask replicas, which may be behind.
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
		s.latest = latest{} // the entry may have expired meanwhile: the next attempt asks again
		return fmt.Errorf("position %d of the bucket has not come yet: %w", of.counts, auth.ErrNotReady)
	}
	s.checker.Revoked.MarkFresh(at)
	return nil
}

// newest asks for the position of the newest key or revocation. stored is the last position in the bucket before that.
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

// last returns the position of the newest entry whose subject matches filter, or 0 if no subject does.
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
