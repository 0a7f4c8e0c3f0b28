package chaos

import (
	"context"
	"sync"
	"time"
)

// pulse tells how late timers of this process were, all the time: callers are in it, and what
// makes its timers late makes theirs late too.
type pulse struct {
	begun time.Time

	mu    sync.Mutex
	worst []time.Duration // by interval since begun
}

const (
	beat     = 5 * time.Millisecond
	interval = 50 * time.Millisecond
)

// run beats until ctx ends.
func (p *pulse) run(ctx context.Context) {
	t := time.NewTimer(beat)
	defer t.Stop()
	for next := time.Now().Add(beat); ; next = time.Now().Add(beat) {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		p.note(next, time.Now())
		t.Reset(beat)
	}
}

// note takes a timer that was due at one time and fired at another: all the while between them
// it was late.
func (p *pulse) note(due, fired time.Time) {
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

// late returns how late a timer was at the worst between two times.
func (p *pulse) late(from, to time.Time) (worst time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := p.index(from); i <= p.index(to) && i < len(p.worst); i++ {
		worst = max(worst, p.worst[i])
	}
	return worst
}

func (p *pulse) index(t time.Time) int { return max(0, int(t.Sub(p.begun)/interval)) }

// control is a timer of one caller, made when its request is and due when it gives up: whatever keeps one
// processor from running makes both late, while the timers of another fire in time.
type control struct {
	timer *time.Timer
	late  chan time.Duration
}

func newControl(due time.Time) *control {
	c := &control{late: make(chan time.Duration, 1)}
	c.timer = time.AfterFunc(time.Until(due), func() { c.late <- time.Since(due) })
	return c
}

// stop ends a timer that is not needed.
func (c *control) stop() { c.timer.Stop() }

// wait waits for the timer and returns how late it was.
func (c *control) wait() time.Duration { return <-c.late }
