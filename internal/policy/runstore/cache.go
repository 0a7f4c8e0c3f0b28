package runstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// lease is how long after the question a run may be used. With the time that a decision takes, it is below 1 s.
const lease = 900 * time.Millisecond

// maxCached is the largest number of runs in a cache. Further calls may need a round trip.
const maxCached = 10_000

// cache has the newest known versions of runs, and the questions under way.
type cache struct {
	mu     sync.Mutex
	known  map[name]version
	asking map[name]*question
}

// question is a read under way, for all who wait for the same run.
type question struct {
	done chan struct{} // closed when the rest is set
	got  version
	err  error
}

func newCache() cache { return cache{known: map[name]version{}, asking: map[name]*question{}} }

// fresh reports whether v may still be used. The monotonic clock may stop while a machine sleeps.
func (v version) fresh() bool {
	now := time.Now()
	return max(now.Sub(v.at), now.Round(0).Sub(v.at.Round(0))) <= lease
}

// get returns the version of a run that may be used; ok is false without one.
func (c *cache) get(n name) (v version, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok = c.known[n]
	return v, ok && v.fresh()
}

// put notes a version, unless a newer one is known. It does not note that a run is missing: it may be started at any
// time. If the cache is full, it first removes an arbitrary run.
func (c *cache) put(n name, v version) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch have, ok := c.known[n]; {
	case ok && have.seq > v.seq && have.fresh():
		return
	case v.run == nil:
		delete(c.known, n)
		return
	case !ok && len(c.known) >= maxCached:
		c.makeRoom()
	}
	c.known[n] = v
}

func (c *cache) makeRoom() {
	for other := range c.known {
		delete(c.known, other)
		return
	}
}

func (c *cache) drop(n name) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, n)
}

// Known returns a run as it was within the last second, if that is known. It sends no messages.
func (s *Store) Known(tenant, id string) (r *policy.Run, ok bool) {
	v, ok := s.cache.get(name{tenant, id})
	return v.facts, ok
}

// Find returns a run, or nil for an unknown id, as it was within the last second or, if current is true, after the call
// of Find. It asks the leader of the bucket if it has to. A run that does not exist is always asked for.
func (s *Store) Find(ctx context.Context, tenant, id string, current bool) (*policy.Run, error) {
	n, since := name{tenant, id}, time.Now()
	if v, ok := s.cache.get(n); ok && !current {
		return v.facts, nil
	}
	for {
		q := s.ask(ctx, n)
		select {
		case <-q.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch {
		case q.err != nil:
			return nil, q.err
		case q.got.fresh() && (!q.got.at.Before(since) || !current && q.got.run != nil):
			return q.got.facts, nil
		} // the question was sent before the call, or this process was suspended: ask again
	}
}

// ask returns the question for a run, which it sends if none is under way.
func (s *Store) ask(ctx context.Context, n name) *question {
	c := &s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.asking[n]; q != nil {
		return q
	}
	q := &question{done: make(chan struct{})}
	c.asking[n] = q
	go s.answer(context.WithoutCancel(ctx), n, q) // others may wait for it, too
	return q
}

func (s *Store) answer(ctx context.Context, n name, q *question) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	q.err = timer.Backoff{Pause: tryPause, Try: tryTime}.Until(ctx, func(ctx context.Context) (bool, error) {
		var err error
		q.got, err = s.read(ctx, n)
		return err == nil, err
	})
	if q.err == nil {
		s.cache.put(n, q.got)
	}
	s.cache.mu.Lock()
	delete(s.cache.asking, n)
	s.cache.mu.Unlock()
	close(q.done)
}

// Start returns the implicit run r, which it creates if it does not exist.
func (s *Store) Start(ctx context.Context, r envelope.Run) (*policy.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	if err := s.Create(ctx, r); err != nil && !errors.Is(err, ErrExists) {
		return nil, err
	}
	return s.Find(ctx, r.Tenant, r.ID, false)
}
