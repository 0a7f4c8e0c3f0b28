package app

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// How often payloadQuota checks the payload store, and how long it refuses parts of an actor or tenant that filled it.
const (
	shareInterval = 2 * time.Second
	overQuotaTime = 10 * time.Second
	// looksPerStore is the number of checks while one dispatcher stores as many bytes as the store holds. Eight
	// dispatchers together can store a quarter of that between two checks of each.
	looksPerStore = 32
	firstStep     = 8 << 20 // in bytes, until the size of the store is known
)

// payloadQuota prevents one actor or tenant from filling the payload store.
type payloadQuota struct {
	conn *Conn

	look  chan struct{} // receives a value when the store must be checked
	since atomic.Int64  // bytes stored since the last check that Stored requested
	step  atomic.Int64  // value of since at which Stored requests a check

	mu   sync.Mutex
	over map[[2]string]time.Time // pairs of tenant and actor, as tokens, with the time until which each is refused
}

func newShares(c *Conn) *payloadQuota {
	s := &payloadQuota{conn: c, look: make(chan struct{}, 1), over: map[[2]string]time.Time{}}
	s.step.Store(firstStep)
	return s
}

// Run makes room in the store until ctx ends. All dispatchers do so; if two do it at the same time, the store is cut
// once. It checks the store at intervals, and each time this dispatcher has stored a fraction of its size. So the
// dispatchers do not fill the store between two checks.
func (s *payloadQuota) Run(ctx context.Context) {
	for tick := time.NewTicker(shareInterval); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		case <-s.look:
		}
		s.share(ctx)
	}
}

func (s *payloadQuota) share(ctx context.Context) {
	once, cancel := context.WithTimeout(ctx, shareInterval)
	defer cancel()
	room, cut, err := streaming.Share(once, s.conn.JS, subjects.PayloadsStream)
	switch {
	case err != nil && ctx.Err() == nil && s.conn.NC.IsConnected():
		s.conn.Logger.Warn("the payload store cannot be shared out", "err", err)
	case cut != nil:
		s.conn.Logger.Warn("the payload store is nearly full: the older half of what one has stored was dropped",
			"tenant", cut.Tenant, "actor", cut.Actor, "left", cut.Left)
		s.note(*cut, time.Now())
	}
	if err == nil && room > 0 {
		s.step.Store(room / looksPerStore)
	}
}

// Stored counts a part of n bytes that this dispatcher has stored, as [streaming.LeastPart] bytes at least.
func (s *payloadQuota) Stored(n int) {
	if s.since.Add(max(int64(n), streaming.LeastPart)) >= s.step.Load() {
		s.since.Store(0)
		timer.Notify(s.look)
	}
}

func (s *payloadQuota) note(cut streaming.Cut, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, until := range s.over {
		if !until.After(now) {
			delete(s.over, of)
		}
	}
	s.over[[2]string{cut.Tenant, cut.Actor}] = now.Add(overQuotaTime)
}

// OverQuota returns for how long an actor may store no more parts, because it or its tenant has filled the store.
func (s *payloadQuota) OverQuota(of subjects.Owner) time.Duration {
	return s.overQuotaOf(subjects.Token(of.Tenant), subjects.Token(of.Actor))
}

// overQuotaOf is OverQuota for encoded names.
func (s *payloadQuota) overQuotaOf(tenant, actor string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, time.Until(s.over[[2]string{tenant, actor}]), time.Until(s.over[[2]string{tenant, ""}]))
}
