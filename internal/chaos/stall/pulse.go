package stall

import (
	"context"
	"sync"
	"time"
)

// Pulse tells how late timers of this process were, all the time: callers are in it, and what
// makes its timers late makes theirs late too. A virtual machine that loses one processor for a while holds up what
// runs there, while timers fire in time on another; so what the machine says that was taken counts as well.
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
	var thief thief
	thief.took() // what was taken before is nobody's here
	for next, read := time.Now().Add(Beat), time.Now(); ; next = time.Now().Add(Beat) {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := time.Now()
		p.note(next, now, now.Sub(next))
		if now.Sub(read) >= interval {
			p.note(read, now, thief.took())
			read = now
		}
		t.Reset(Beat)
	}
}

// note takes how late something was between two times. A timer is late from when it was due until it fires.
func (p *Pulse) note(from, to time.Time, late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.index(to)
	for len(p.worst) <= last {
		p.worst = append(p.worst, 0)
	}
	for i := p.index(from); i <= last; i++ {
		p.worst[i] = max(p.worst[i], late)
	}
}

// Late returns how late a timer was, or how long a processor was gone, at the worst between two times.
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
