package dispatcher

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/call"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/wait"
	"github.com/seed-018f16cc/toolbus/question"
)

// partings are joiners that wait here and whose own deadline comes before that of the attempt, nearest first.
type partings struct {
	mu   sync.Mutex
	due  partingHeap
	wake chan struct{} // the nearest may have changed
}

// parting is when a joiner stops waiting, in bus time.
type parting struct {
	at   time.Time
	from question.Leave
}

type partingHeap []parting

func (h partingHeap) Len() int           { return len(h) }
func (h partingHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h partingHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *partingHeap) Push(x any)        { *h = append(*h, x.(parting)) }
func (h *partingHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = parting{}
	*h = old[:len(old)-1]
	return last
}

func (p *partings) add(at time.Time, from question.Leave) {
	p.mu.Lock()
	defer p.mu.Unlock()
	heap.Push(&p.due, parting{at, from})
	if p.due[0].from == from {
		wait.Signal(p.wake)
	}
}

// next removes and returns those that stop waiting now, and says how long it is to the one after them.
func (p *partings) next(now time.Time) (over []question.Leave, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.due) > 0 && !p.due[0].at.After(now) {
		over = append(over, heap.Pop(&p.due).(parting).from)
	}
	if len(p.due) == 0 {
		return over, time.Hour
	}
	return over, p.due[0].at.Sub(now)
}

// keepPartings answers joiners at their own deadlines until ctx ends.
func (d *Dispatcher) keepPartings(ctx context.Context) {
	keep(ctx, d.partings.wake, func() time.Duration {
		over, pause := d.partings.next(d.Now())
		for _, l := range over {
			d.safely("the deadline of a joiner", func() { d.part(l) })
		}
		return pause
	})
}

// part tells a joiner at its deadline that its call goes on, if it still waits.
func (d *Dispatcher) part(l question.Leave) {
	now := call.At(d.Now())
	w, s, ok := d.leave(l, func(w waiter) bool { return w.due != 0 && w.due <= now })
	if ok { // that is no outcome: the attempt has one of its own, later
		e := envelope.NewError(envelope.CodeTimeout, "this caller's deadline has passed; the call goes on for the others")
		d.dismiss(w, s, l.Attempt, e.WithFix("ask again with the same key for the outcome").WithEffect(effectSoFar(s)))
	}
}
