package kv

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Shares of the call log, as its parts. They hold while the log is more than half full.
const (
	tenantShare = 4
	actorShare  = 8 // of an actor with its sub-actors, which are all that tokens narrowed from its tokens can name
)

// How full a log is, in per cent, when counting begins and ends, and from when on shares hold. The first count
// reads the headers of the whole log, so it is done before it is needed.
const (
	countsFrom  = 25
	countsUntil = 15
	sharesFrom  = 50
)

// shares counts what tenants and actors keep in the call log, open or decided, until it expires, so that none of them
// fills the log for all. It counts from the log itself, also after a restart, and only while the log is at least a
// quarter full.
type shares struct {
	fill *FillLevel
	log  *slog.Logger

	mu    sync.Mutex
	kept  map[subjects.Owner]*kept // an empty actor stands for the whole tenant
	swept int64                    // minute up to which expired events have been subtracted
}

// kept has the bytes that one owner keeps: in all, and by the minute in which they expire.
type kept struct {
	bytes    int64
	expiring map[int64]int64
}

// run counts, when the log is full enough, until ctx ends.
func (s *shares) run(ctx context.Context) {
	for timer.Sleep(ctx, fillInterval) {
		if s.fill.level() >= countsFrom {
			s.count(ctx)
		}
	}
}

// count counts the events of all partitions until the log is nearly empty or ctx ends. After an error it returns, too,
// and begins again.
func (s *shares) count(ctx context.Context) {
	defer s.forget()
	counting, ctx := errgroup.WithContext(ctx)
	for p := range s.fill.partitions() {
		counting.Go(func() error { return s.read(ctx, p) })
	}
	counting.Go(func() error {
		for s.fill.level() >= countsUntil && timer.Sleep(ctx, fillInterval) {
		}
		return context.Canceled // ends the readers
	})
	if err := counting.Wait(); !errors.Is(err, context.Canceled) {
		s.log.Warn("what each tenant keeps in the call log is counted again", "err", err)
	}
}

func (s *shares) read(ctx context.Context, p subjects.Partition) error {
	all := jetstream.OrderedConsumerConfig{FilterSubjects: []string{p.All()}, HeadersOnly: true}
	for m, err := range bus.Messages(ctx, s.fill.js, p.Stream(), all, 0) {
		if err != nil {
			return err
		}
		h := m.Headers()
		e, err := DecodeEvent(m.Subject(), h)
		if err != nil {
			continue // an executor's, and small, or of a newer build
		}
		a, _ := e.State.Attempt(e.Attempt)
		life, _ := strconv.Atoi(h.Get(jetstream.MsgTTLHeader))
		size := bodySize(h) + len(h.Get(subjects.HeaderEvent)) + len(m.Subject())
		s.add(subjects.Owner{Tenant: e.State.Tenant, Actor: a.Owner.Actor}, int64(size),
			m.Time.Add(time.Duration(life)*time.Second))
	}
	return nil
}

// add counts an event of an owner.
func (s *shares) add(of subjects.Owner, bytes int64, expires time.Time) {
	if !expires.After(time.Now()) {
		return
	}
	minute := expires.Unix()/60 + 1
	s.mu.Lock()
	defer s.mu.Unlock()
	for o := range payers(of) {
		k := s.kept[o]
		if k == nil {
			k = &kept{expiring: map[int64]int64{}}
			s.kept[o] = k
		}
		k.bytes += bytes
		k.expiring[minute] += bytes
	}
}

func (s *shares) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.kept)
}

// sweep subtracts what has expired. Callers hold s.mu.
func (s *shares) sweep(now int64) {
	if now == s.swept {
		return
	}
	s.swept = now
	for of, k := range s.kept {
		for minute, bytes := range k.expiring {
			if minute <= now {
				k.bytes -= bytes
				delete(k.expiring, minute)
			}
		}
		if len(k.expiring) == 0 {
			delete(s.kept, of)
		}
	}
}

// over is [FillLevel.Over] for a log of that size in bytes.
func (s *shares) over(of subjects.Owner, size int64) (used, share int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(time.Now().Unix() / 60)
	for o := range payers(of) {
		share := size / actorShare
		if o.Actor == "" {
			share = size / tenantShare
		}
		if k := s.kept[o]; k != nil && k.bytes >= share {
			return k.bytes, share
		}
	}
	return 0, 0
}

// payers yields those of whose shares an event of an owner takes: the tenant, the actor, and each actor of which that
// is a sub-actor.
func payers(of subjects.Owner) func(yield func(subjects.Owner) bool) {
	return func(yield func(subjects.Owner) bool) {
		if !yield(subjects.Owner{Tenant: of.Tenant}) || !yield(of) {
			return
		}
		for i := range len(of.Actor) - 1 {
			if of.Actor[i] == '/' && i > 0 && !strings.ContainsRune(":/", rune(of.Actor[i-1])) &&
				!yield(subjects.Owner{Tenant: of.Tenant, Actor: of.Actor[:i]}) {
				return
			}
		}
	}
}
