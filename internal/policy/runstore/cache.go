package runstore

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// maxCached is the largest number of runs in a cache. Further calls may need a round trip.
const maxCached = 10_000

// cache has the newest known versions of runs, and the questions under way.
type cache struct {
	mu     sync.Mutex
	known  map[name]version
	asking singleflight.Group // by subject
}

// get returns the version of a run that may be used; ok is false without one.
func (c *cache) get(n name) (v version, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok = c.known[n]
	return v, ok && v.Fresh()
}

// put notes a version, unless a newer one is known. It does not note that a run is missing: it may be started at any
// time. If the cache is full, it first removes an arbitrary run.
func (c *cache) put(n name, v version) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch have, ok := c.known[n]; {
	case ok && have.Revision > v.Revision && have.Fresh():
		return
	case v.Value == nil:
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
	return s.facts(v), ok
}

// Find returns a run, or nil for an unknown id, as it was within the last second and after a time, which must have
// passed. It asks the leader of the bucket if it has to. A run that does not exist is always asked for.
func (s *Store) Find(ctx context.Context, tenant, id string, after time.Time) (*policy.Run, error) {
	n, since := name{tenant, id}, time.Now()
	if v, ok := s.cache.get(n); ok && !v.At.Before(after) {
		return s.facts(v), nil
	}
	for {
		asked := s.cache.asking.DoChan(n.subject(), func() (any, error) {
			return s.ask(context.WithoutCancel(ctx), n) // others may wait for it, too
		})
		select {
		case answer := <-asked:
			if answer.Err != nil {
				return nil, answer.Err
			}
			v, _ := answer.Val.(version)
			if v.Fresh() && (!v.At.Before(since) || v.Value != nil && !v.At.Before(after)) {
				return s.facts(v), nil
			} // the question was sent before the call, or this process was suspended: ask again
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ask asks for a run until there is an answer, for at most readTime. Each question has as long as its answer is of use.
func (s *Store) ask(ctx context.Context, n name) (v version, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	err = timer.Backoff{Pause: tryPause}.Until(ctx, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, timer.LeaseTime)
		defer cancel()
		e, err := s.runs.Read(ctx, n.subject())
		v = versionOf(e)
		return err == nil, err
	})
	if err == nil {
		s.cache.put(n, v)
	}
	return v, err
}
