package app

import (
	"context"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/wait"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// How often the payload store is looked at, and for how long whoever has filled it is refused large inputs.
const (
	shareInterval = 2 * time.Second
	greedyTime    = 10 * time.Second
)

// shares sees to it that no actor or tenant fills the payload store for others.
type shares struct {
	conn *Conn

	mu     sync.Mutex
	greedy map[[2]string]time.Time // tenants and actors, as tokens, and until when
}

func newShares(c *Conn) *shares { return &shares{conn: c, greedy: map[[2]string]time.Time{}} }

// Run makes room until ctx ends. Every dispatcher does: two that do the same at once do it once.
func (s *shares) Run(ctx context.Context) {
	for wait.For(ctx, shareInterval) {
		once, cancel := context.WithTimeout(ctx, shareInterval)
		cut, err := streaming.Share(once, s.conn.JS, subjects.PayloadsStream)
		cancel()
		switch {
		case err != nil && ctx.Err() == nil && s.conn.NC.IsConnected():
			s.conn.Logger.Warn("the payload store cannot be shared out", "err", err)
		case cut != nil:
			s.conn.Logger.Warn("the payload store is nearly full: the older half of what one has stored was dropped",
				"tenant", cut.Tenant, "actor", cut.Actor, "left", cut.Left)
			s.note(*cut, time.Now())
		}
	}
}

func (s *shares) note(cut streaming.Cut, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, until := range s.greedy {
		if !until.After(now) {
			delete(s.greedy, of)
		}
	}
	s.greedy[[2]string{cut.Tenant, cut.Actor}] = now.Add(greedyTime)
}

// Greedy says for how long an actor is to store nothing more: it, or its tenant, has filled the store lately.
func (s *shares) Greedy(of subjects.Owner) time.Duration {
	tenant, actor := subjects.Token(of.Tenant), subjects.Token(of.Actor)
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, time.Until(s.greedy[[2]string{tenant, actor}]), time.Until(s.greedy[[2]string{tenant, ""}]))
}
