package flow

import (
	"errors"
	"sync"
	"time"
)

// Sender is whose turn it may be.
type Sender struct{ Tenant, Actor string }

// Load is what a job takes, or a bound of what jobs take together, where 0 is none.
type Load struct {
	Items   int64 // that wait or are in hand
	Bytes   int64 // of these
	Slots   int64 // in hand, in units of whoever uses the queue
	Running int64 // in hand, and not waiting for others themselves
}

// QueueLimits are the bounds of a queue, and for how many bytes a turn is.
type QueueLimits struct {
	Actor, Tenant, All Load
	Quantum            int64
	Least              int64 // items that an actor may have although others have filled the bound of its tenant
	Share              int64 // hands that an actor may hold before others overtake it where there are too few
}

// QueueFullError is the error of a queue that takes no more of a sender.
type QueueFullError struct {
	Of   string        // whose bound is reached: "actor", "tenant" or "dispatcher"
	Wait time.Duration // about how long until what is there will have been worked off
}

func (f *QueueFullError) Error() string {
	return "too much waits already: the bound of the " + f.Of + " is reached"
}

// ErrClosed is the error of a queue that takes nothing any more.
var ErrClosed = errors.New("flow: the queue is closed")

// Queue holds jobs until they are taken up, and knows of them until they end. It is safe for concurrent use, and never
// blocks. Whenever a job was put, or has ended, waits or became smaller, there may be one that can [Queue.Begin].
type Queue[T any] struct {
	limits QueueLimits

	mu      sync.Mutex
	all     *node[T]
	waiting int
	closed  bool
	taken   chan struct{} // closed once it is closed, and nothing waits
}

// Job is an item in a queue.
type Job[T any] struct {
	Item T
	load Load
	of   *node[T]
}

// NewQueue returns an empty queue.
func NewQueue[T any](limits QueueLimits) *Queue[T] {
	return &Queue[T]{
		limits: limits, taken: make(chan struct{}),
		all: &node[T]{level: "dispatcher", bound: limits.All, children: map[string]*node[T]{}},
	}
}

// Put adds an item behind all of its sender, which takes so many bytes, and so many hands once it has begun. The error
// is [ErrClosed] or a [QueueFullError].
func (q *Queue[T]) Put(from Sender, item T, bytes, hands int64) (*Job[T], error) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, ErrClosed
	}
	tenant := q.all.child(from.Tenant, "tenant", q.limits.Tenant, q.limits.Quantum)
	actor := tenant.child(from.Actor, "actor", q.limits.Actor, q.limits.Quantum)
	more := Load{Items: 1, Bytes: bytes}
	for n := actor; n != nil; n = n.parent {
		spared := n == tenant && actor.holds.Items < q.limits.Least
		if !n.fits(more) && !spared {
			full := &QueueFullError{Of: n.level, Wait: n.pace.Wait(n.holds.Items, now)}
			q.forget(actor)
			return nil, full
		}
	}
	j := &Job[T]{Item: item, load: Load{Items: 1, Bytes: bytes, Slots: hands}, of: actor}
	for n := actor; n != nil; n = n.parent {
		if n.holds.Items == 0 {
			n.pace.Start(now)
		}
		n.holds = n.holds.plus(more)
	}
	actor.jobs = append(actor.jobs, j)
	q.waiting++
	actor.settle()
	return j, nil
}

// Fits reports whether there is room for an item of a sender: [Queue.Put] would take it now.
func (q *Queue[T]) Fits(from Sender, bytes int64) bool {
	more := Load{Items: 1, Bytes: bytes}
	q.mu.Lock()
	defer q.mu.Unlock()
	tenant := q.all.children[from.Tenant]
	if q.closed || !q.all.fits(more) || tenant == nil {
		return !q.closed && q.all.fits(more)
	}
	actor := tenant.children[from.Actor]
	spared := actor == nil && q.limits.Least > 0 || actor != nil && actor.holds.Items < q.limits.Least
	return (spared || tenant.fits(more)) && (actor == nil || actor.fits(more))
}

// Begin takes up the job whose turn it is; nil where there is none, or no hand for it.
func (q *Queue[T]) Begin() *Job[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.begin()
}

// begin is Begin. Callers hold q.mu.
func (q *Queue[T]) begin() *Job[T] {
	for len(q.all.ring) > 0 {
		actor := q.all.turn()
		j := actor.jobs[0]
		takes := Load{Slots: j.load.Slots, Running: 1}
		n := actor.blockedBy(takes)
		if n == q.all && !q.overtaken(actor, takes.Slots) {
			return nil
		}
		if n != nil {
			if n == q.all {
				n = actor
			}
			n.blocked = true
			n.settle()
			continue
		}
		actor.jobs[0] = nil
		actor.jobs = actor.jobs[1:]
		j.load.Running = 1
		for n := actor; n != nil; n = n.parent {
			n.holds = n.holds.plus(takes)
			n.credit -= j.load.Bytes
		}
		actor.settle()
		q.took(1)
		return j
	}
	return nil
}

// overtaken reports whether others may go before an actor that needs more hands than there are: it has its share. Where
// it has less nobody may, or what is large would never have its turn.
func (q *Queue[T]) overtaken(actor *node[T], hands int64) bool {
	return q.limits.Share > 0 && actor.holds.Slots > 0 && actor.holds.Slots+hands > q.limits.Share
}

// Next is Begin after End.
func (q *Queue[T]) Next(j *Job[T]) *Job[T] {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end(j, now)
	return q.begin()
}

// End says that a job that has begun is done.
func (q *Queue[T]) End(j *Job[T]) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end(j, now)
}

// end is End. Callers hold q.mu.
func (q *Queue[T]) end(j *Job[T], now time.Time) {
	for n := j.of; n != nil; n = n.parent {
		n.pace.Ended(now)
	}
	q.give(j, j.load)
	q.forget(j.of)
}

// Waits says that a job that has begun waits for others from here on. It may be said again.
func (q *Queue[T]) Waits(j *Job[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.give(j, Load{Running: j.load.Running})
}

// Shrink gives back some of the hands of a job that has begun.
func (q *Queue[T]) Shrink(j *Job[T], hands int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.give(j, Load{Slots: min(hands, j.load.Slots)})
}

// give makes a job smaller. Callers hold q.mu.
func (q *Queue[T]) give(j *Job[T], back Load) {
	j.load = j.load.minus(back)
	for n := j.of; n != nil; n = n.parent {
		n.holds = n.holds.minus(back)
		if n.parent != nil {
			n.blocked = false
			n.settle()
		}
	}
}

// Drop takes a job out that has not begun, and reports whether it was so.
func (q *Queue[T]) Drop(j *Job[T]) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !j.of.remove(j) {
		return false
	}
	q.give(j, Load{Items: 1, Bytes: j.load.Bytes})
	q.forget(j.of)
	q.took(1)
	return true
}

// Close lets nothing more in. What it returns is closed once all that waits has begun.
func (q *Queue[T]) Close() (taken <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		q.took(0)
	}
	return q.taken
}

// Clear drops all that waits, and returns how much that was.
func (q *Queue[T]) Clear() (dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, tenant := range q.all.children {
		for _, actor := range tenant.children {
			for _, j := range actor.jobs {
				actor.jobs = actor.jobs[1:]
				q.give(j, Load{Items: 1, Bytes: j.load.Bytes})
				dropped++
			}
		}
	}
	q.took(dropped)
	return dropped
}

// took notes that so many wait no more. Callers hold q.mu.
func (q *Queue[T]) took(n int) {
	q.waiting -= n
	if q.closed && q.waiting == 0 {
		select {
		case <-q.taken:
		default:
			close(q.taken)
		}
	}
}

// idle is how many senders without a job are kept of each tenant, and tenants: they are likely to send again.
const idle = 64

// forget removes a sender without a job. Callers hold q.mu.
func (q *Queue[T]) forget(n *node[T]) {
	for ; n.parent != nil && n.holds.Items == 0; n = n.parent {
		n.credit = 0
		if siblings := n.parent.children; len(siblings) > idle && len(n.children) <= idle {
			delete(siblings, n.name)
		}
	}
}
