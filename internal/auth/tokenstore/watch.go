package tokenstore

import (
	"context"
	"crypto/ed25519"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

const (
	// rereadTime is how often everything is read anew, besides at every reconnection: what has expired is gone then.
	rereadTime = time.Minute
	// watchPause is how soon a server that is away is asked again.
	watchPause = 200 * time.Millisecond
)

// view is what was read of the bucket.
type view struct {
	keys          map[string]signingKey
	families      map[string]bool
	revokedActors map[[2]string]time.Time
	seq           uint64 // of the newest entry
}

// Run follows the bucket until ctx ends. While the server is away what was last known stays; when it is back everything
// is read anew.
func (s *Store) Run(ctx context.Context) {
	var proofs sync.WaitGroup
	defer proofs.Wait()
	proofs.Go(func() { s.proveAll(ctx) })
	for ctx.Err() == nil {
		if err := s.follow(ctx); err != nil && ctx.Err() == nil {
			s.Logger.Warn("keys and revocations not received", "err", err)
			timer.Sleep(ctx, watchPause)
		}
	}
}

// follow reads everything, and what is new until it is time to read everything again.
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
	v := view{map[string]signingKey{}, map[string]bool{}, map[[2]string]time.Time{}, 0}
	err := s.watch(ctx, []string{subjects.KeysAll, subjects.RevokedAll, subjects.RevokedActorsAll},
		func(msg jetstream.Msg, meta *jetstream.MsgMetadata, last bool) bool {
			s.apply(&v, msg, meta)
			if last {
				s.show(v)
			}
			return true
		})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// read hands over all entries that match, once.
func (s *Store) read(ctx context.Context, filters []string, take func(jetstream.Msg)) error {
	stream, err := s.js.Stream(ctx, subjects.ControlStream)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(filters[0]))
	if err != nil || len(info.State.Subjects) == 0 {
		return err
	}
	return s.watch(ctx, filters, func(msg jetstream.Msg, _ *jetstream.MsgMetadata, last bool) bool {
		take(msg)
		return !last
	})
}

// watch hands over the newest entry of each subject, and says with the last one that there are no more, and then what
// is new, until take has enough or ctx ends.
func (s *Store) watch(
	ctx context.Context, filters []string, take func(msg jetstream.Msg, meta *jetstream.MsgMetadata, last bool) bool,
) error {
	c, err := s.js.OrderedConsumer(ctx, subjects.ControlStream, jetstream.OrderedConsumerConfig{
		FilterSubjects: filters, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
	})
	if err != nil {
		return err
	}
	messages, err := c.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for all := false; ; {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		all = all || meta.NumPending == 0
		if !take(msg, meta, all) {
			return nil
		}
	}
}

// apply takes an entry into a view. One that a newer build wrote revokes all the same, if it is about a family. An
// actor is barred from when the server has stored that: by the clock of whoever said so, a token that another
// dispatcher has renewed meanwhile might be of later.
func (s *Store) apply(v *view, msg jetstream.Msg, meta *jetstream.MsgMetadata) {
	v.seq = meta.Sequence.Stream
	gone := len(msg.Data()) == 0 // somebody has deleted it
	if family, ok := subjects.ParseRevoked(msg.Subject()); ok {
		v.families[family] = !gone
		return
	}
	var key signingKey
	var bar revoked
	kid, isKey := subjects.ParseSigningKey(msg.Subject())
	err := error(nil)
	switch {
	case isKey && gone:
		delete(v.keys, kid)
	case isKey:
		if err = format.Unmarshal(format.Entry, msg.Data(),
			&key); err == nil && len(key.Public) == ed25519.PublicKeySize &&
			deployment.KeyID(key.Public) == kid {
			v.keys[kid] = key
		}
	case !gone && subjects.IsRevokedActor(msg.Subject()):
		if err = format.Unmarshal(format.Entry, msg.Data(), &bar); err == nil {
			v.revokedActors[[2]string{bar.Tenant, bar.Actor}] = later(bar.At, meta.Timestamp)
		}
	}
	if err != nil {
		s.Logger.Error("entry of the control bucket left out", "subject", msg.Subject(), "err", err)
	}
}

// show makes a view what is believed. One that ends earlier than the last was read where something is missing, or
// what was newest is gone for its age: the next proof tells.
func (s *Store) show(v view) {
	good := map[string]auth.Key{}
	for kid, k := range v.keys {
		good[kid] = auth.Key{Public: k.Public, Until: k.Until}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v.seq < s.shown {
		s.checker.Revoked.MarkStale()
	}
	s.known, s.shown = maps.Clone(v.keys), v.seq
	s.checker.Keys.Replace(good)
	if s.checker.Revoked.Replace(maps.Clone(v.families), maps.Clone(v.revokedActors)) {
		select {
		case s.changed <- struct{}{}:
		default: // it will be seen with the last one
		}
	}
	select {
	case <-s.synced:
	default:
		close(s.synced)
	}
}
