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
