// Package pulse tells how late the timers of a process are.
package pulse

import (
	"context"
	"sync"
	"time"
)

// Pulse tells how late timers of this process were, all the time: callers are in it, and what
// makes its timers late makes theirs late too.
type Pulse struct {
	begun time.Time

	mu    sync.Mutex
	worst []time.Duration // by interval since begun
}

const (
	// Beat is how often it beats.
	Beat     = 5 * time.Millisecond
	interval = 50 * time.Millisecond
)

// New returns one that begins now.
func New() *Pulse { return &Pulse{begun: time.Now()} }

// Run beats until ctx ends.
func (p *Pulse) Run(ctx context.Context) {
	t := time.NewTimer(Beat)
	defer t.Stop()
	for next := time.Now().Add(Beat); ; next = time.Now().Add(Beat) {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		p.note(next, time.Now())
		t.Reset(Beat)
	}
}

// note takes a timer that was due at one time and fired at another: all the while between them
// it was late.
func (p *Pulse) note(due, fired time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	from, to := p.index(due), p.index(fired)
	for len(p.worst) <= to {
		p.worst = append(p.worst, 0)
	}
	for i := from; i <= to; i++ {
		p.worst[i] = max(p.worst[i], fired.Sub(due))
	}
}

// Late returns how late a timer was at the worst between two times.
func (p *Pulse) Late(from, to time.Time) (worst time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := p.index(from); i <= p.index(to) && i < len(p.worst); i++ {
		worst = max(worst, p.worst[i])
	}
	return worst
}

func (p *Pulse) index(t time.Time) int { return max(0, int(t.Sub(p.begun)/interval)) }

// Control is a timer of one caller, made when its request is and due when it gives up: whatever keeps one
// processor from running makes both late, while the timers of another fire in time.
type Control struct {
	timer *time.Timer
	late  chan time.Duration
}

// NewControl returns one that is due then.
func NewControl(due time.Time) *Control {
	c := &Control{late: make(chan time.Duration, 1)}
	c.timer = time.AfterFunc(time.Until(due), func() { c.late <- time.Since(due) })
	return c
}

// Stop ends a timer that is not needed.
func (c *Control) Stop() { c.timer.Stop() }

// Wait waits for the timer and returns how late it was.
func (c *Control) Wait() time.Duration { return <-c.late }
