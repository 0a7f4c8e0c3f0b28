package stall

import (
	"context"
	"sync"
	"time"
)

// Pulse records the delay of a control timer during a run. The callers are in the same process, so their timers are
// late too. A virtual machine that loses one processor delays what runs there, while timers on other processors fire in
// time. So stolen processor time counts as a delay as well.
type Pulse struct {
	begun time.Time

	mu    sync.Mutex
	worst []time.Duration // largest delay by interval since begun
}

const (
	// Beat is the interval of the control timer.
	Beat     = 5 * time.Millisecond
	interval = 50 * time.Millisecond
)

// New returns a Pulse that starts now.
func New() *Pulse { return &Pulse{begun: time.Now()} }

// Run records delays until ctx ends.
func (p *Pulse) Run(ctx context.Context) {
	t := time.NewTimer(Beat)
	defer t.Stop()
	var thief thief
	thief.took() // time that was stolen before does not count
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

// note records a delay between two times. A timer is late from when it was due until it fires.
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

// Late returns the largest delay between two times.
func (p *Pulse) Late(from, to time.Time) (worst time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := p.index(from); i <= p.index(to) && i < len(p.worst); i++ {
		worst = max(worst, p.worst[i])
	}
	return worst
}

func (p *Pulse) index(t time.Time) int { return max(0, int(t.Sub(p.begun)/interval)) }

// Control is a timer of one caller. The caller creates it with its request, due when it gives up. If one processor is
// delayed, both are late, while timers on other processors fire in time.
type Control struct {
	timer *time.Timer
	late  chan time.Duration
}

// NewControl returns a Control that is due at the given time.
func NewControl(due time.Time) *Control {
	c := &Control{late: make(chan time.Duration, 1)}
	c.timer = time.AfterFunc(time.Until(due), func() { c.late <- time.Since(due) })
	return c
}

// Stop stops the timer.
func (c *Control) Stop() { c.timer.Stop() }

// Wait waits until the timer fires and returns how late it was.
func (c *Control) Wait() time.Duration { return <-c.late }
