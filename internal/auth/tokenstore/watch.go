package tokenstore

import (
	"context"
	"crypto/ed25519"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

const (
	// rereadTime is how often all entries are read again, besides after each reconnect, to drop the expired ones.
	rereadTime = time.Minute
	// watchPause is the pause before reading again after an error.
	watchPause = 200 * time.Millisecond
)

// view is the content of the bucket that was read so far.
type view struct {
	keys          map[string]signingKey
	families      map[string]bool
	revokedActors map[[2]string]time.Time
	seq           uint64    // the position of the newest entry
	made          time.Time // when the bucket was made
}

// Run reads the bucket and follows its changes until ctx ends. While it is disconnected it keeps the last content, but
// the lease of the revocations ends. After a reconnect it reads the bucket again.
func (s *Store) Run(ctx context.Context) {
	var proofs sync.WaitGroup
	defer proofs.Wait()
	proofs.Go(func() { replica.Follow(ctx, s.Prove) })
	for failing := false; ctx.Err() == nil; {
		err := s.follow(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			s.Logger.Warn("keys and revocations not received: no token is accepted until they are", "err", err)
		}
		if failing = err != nil; failing {
			timer.Sleep(ctx, watchPause)
		}
	}
}

// filters returns those of the entries that Run reads.
func filters() []string {
	return []string{subjects.KeysAll, subjects.RevokedAll, subjects.RevokedActorsAll}
}

// follow reads all entries and then new ones, until rereadTime is over, the connection was opened again, or the bucket
// is not the one that was read.
func (s *Store) follow(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, rereadTime)
	defer stop()
	nc := s.js.Conn()
	again := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(again)
	go func() { // ends with ctx
		select {
		case <-again:
			stop()
		case <-ctx.Done():
		}
	}()
	l, err := s.bucket.List(ctx, filters()...)
	if err != nil {
		return err
	}
	v := view{map[string]signingKey{}, map[string]bool{}, map[[2]string]time.Time{}, 0, l.Made}
	for _, e := range l.Entries {
		if err := s.apply(ctx, &v, e); err != nil {
			return err
		}
	}
	v.seq = l.Last
	s.show(v)
	return s.hear(ctx, stop, v)
}

// hear adds the entries that are stored after those of v, until ctx ends or the bucket is not the one of v.
func (s *Store) hear(ctx context.Context, stop func(), v view) error {
	select {
	case <-s.remade: // it was said of an earlier view
	default:
	}
	go func() { // ends with ctx
		select {
		case <-s.remade:
			stop()
		case <-ctx.Done():
		}
	}()
	after := bus.StartAfter(v.seq)
	after.FilterSubjects = filters()
	after.MaxResetAttempts = 1 // more would go on after ctx has ended
	for m, err := range bus.Messages(ctx, s.js, subjects.ControlStream, after, 0) {
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			err = s.apply(ctx, &v, replica.Found{RawStreamMsg: &jetstream.RawStreamMsg{
				Subject: m.Subject(), Sequence: m.Seq, Header: m.Headers(), Data: m.Data(), Time: m.Time,
			}})
		}
		if err != nil {
			return err
		}
		v.seq = m.Seq
		s.show(v)
	}
	return nil
}

// read returns the newest entry of each subject that matches a filter.
func (s *Store) read(ctx context.Context, filter string) (all []bus.Message, err error) {
	for m, err := range bus.Messages(ctx, s.js, subjects.ControlStream, replica.NewestOf(filter), bus.ReadTimeout) {
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// apply adds an entry to a view. It does not read the body of the revocation of a family, so that one written by a
// newer build also counts. The time of the revocation of an actor is the later of the time in the entry and the time
// when the server stored it: by the clock of the writer alone, a token that another dispatcher renewed meanwhile could
// count as issued later.
//
// If nobody can read the revocation of an actor, all tokens count that the actor has until now, which is stored.
func (s *Store) apply(ctx context.Context, v *view, msg replica.Found) error {
	gone := len(msg.Data) == 0 // a deletion
	if family, ok := subjects.ParseRevoked(msg.Subject); ok {
		v.families[family] = !gone || msg.Held
		return nil
	}
	if tenant, actor, ok := subjects.ParseRevokedActor(msg.Subject); ok && gone && msg.Held {
		at := s.Now().UTC()
		v.revokedActors[[2]string{tenant, actor}] = at
		entry := revoked{Tenant: tenant, Actor: actor, At: at, By: "dispatchers"}
		return s.put(ctx, msg.Subject, entry, MaxRenewal+slack, false)
	}
	var key signingKey
	var bar revoked
	kid, isKey := subjects.ParseSigningKey(msg.Subject)
	err := error(nil)
	switch {
	case isKey && gone:
		delete(v.keys, kid)
	case isKey:
		if err = format.Unmarshal(format.Entry, msg.Data,
			&key); err == nil && len(key.Public) == ed25519.PublicKeySize &&
			deployment.KeyID(key.Public) == kid {
			v.keys[kid] = key
		}
	case !gone && subjects.IsRevokedActor(msg.Subject):
		if err = format.Unmarshal(format.Entry, msg.Data, &bar); err == nil {
			v.revokedActors[[2]string{bar.Tenant, bar.Actor}] = later(bar.At, msg.Time)
		}
	}
	if err != nil {
		s.Logger.Error("entry of the control bucket left out", "subject", msg.Subject, "err", err)
	}
	return nil
}

// show passes a view to the verifier. If the view ends before the previous one, it was read from a replica that is
// behind, or the newest entry has expired. Then the revocations count as incomplete until the next proof.
func (s *Store) show(v view) {
	good := map[string]auth.Key{}
	for kid, k := range v.keys {
		good[kid] = auth.Key{Public: k.Public, Until: k.Until}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	behind := v.seq < s.shown
	if behind {
		s.checker.Revoked.MarkStale()
	}
	distrusts := !behind && s.distrusts(v.keys)
	if distrusts {
		s.distrusted = s.Now()
	}
	s.known, s.shown, s.made = maps.Clone(v.keys), v.seq, v.made
	s.checker.Keys.Replace(good)
	if s.checker.Revoked.Replace(maps.Clone(v.families), maps.Clone(v.revokedActors)) || distrusts {
		timer.Notify(s.changed)
	}
	select {
	case <-s.synced:
	default:
		close(s.synced)
	}
}

// distrusts reports whether keys lacks a known key whose tokens had not expired. The caller holds s.mu.
func (s *Store) distrusts(keys map[string]signingKey) bool {
	for kid, k := range s.known {
		if _, kept := keys[kid]; !kept && k.good(s.Now()) {
			return true
		}
	}
	return false
}
