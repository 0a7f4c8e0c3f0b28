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

// How often the payload store is looked at, and for how long whoever has filled it is refused large inputs.
const (
	shareInterval = 2 * time.Second
	overQuotaTime = 10 * time.Second
	// looksPerStore is how often the store is looked at while one dispatcher fills it. Eight dispatchers that fill it
	// together store another quarter of it between two looks of each.
	looksPerStore = 32
	firstStep     = 8 << 20 // bytes, before the size of the store is known
)

// payloadQuota sees to it that no actor or tenant fills the payload store for others.
type payloadQuota struct {
	conn *Conn

	look  chan struct{} // has an element when the store is to be looked at
	since atomic.Int64  // bytes that were stored since
	step  atomic.Int64  // after which it is to be looked at

	mu   sync.Mutex
	over map[[2]string]time.Time // tenants and actors, as tokens, and until when
}

func newShares(c *Conn) *payloadQuota {
	s := &payloadQuota{conn: c, look: make(chan struct{}, 1), over: map[[2]string]time.Time{}}
	s.step.Store(firstStep)
	return s
}

// Run makes room until ctx ends. Every dispatcher does: two that do the same at once do it once. It looks at the
// store at intervals, and whenever this dispatcher has stored a fraction of it: so parts that dispatchers store
// never fill what is left above the share at which room is made.
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

// Stored notes a part that this dispatcher has stored for others, in bytes.
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

// OverQuota says for how long an actor is to store nothing more: it, or its tenant, has filled the store lately.
func (s *payloadQuota) OverQuota(of subjects.Owner) time.Duration {
	return s.overQuotaOf(subjects.Token(of.Tenant), subjects.Token(of.Actor))
}

// overQuotaOf is Greedy of tokens.
func (s *payloadQuota) overQuotaOf(tenant, actor string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, time.Until(s.over[[2]string{tenant, actor}]), time.Until(s.over[[2]string{tenant, ""}]))
}
