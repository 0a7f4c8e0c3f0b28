package flow

import (
	"errors"
	"sync"
	"time"
)

// Sender identifies the sender of items. Senders take turns: first tenants, and within a tenant its actors.
type Sender struct{ Tenant, Actor string }

// Load is the amount of resources that a job takes, or a limit of the sum for several jobs, where 0 means no limit.
type Load struct {
	Items   int64 // waiting and running jobs
	Bytes   int64 // of these
	Slots   int64 // of running jobs, in a unit that the user of the queue chooses
	Running int64 // running jobs that have not called Waits
}

// QueueLimits are the limits of a [Queue]. Quantum is the number of bytes of one turn.
type QueueLimits struct {
	Actor, Tenant, All Load
	Quantum            int64
	Least              int64 // items of an actor that are accepted although its tenant has reached its limit
	Share              int64 // slots that an actor may hold before others are served first if slots are short; 0: never
}

// QueueFullError means that a limit of a queue is reached, so an item was not accepted.
type QueueFullError struct {
	Of   string        // whose bound is reached: "actor", "tenant" or "dispatcher"
	Wait time.Duration // estimated time until the present items have ended
}

func (f *QueueFullError) Error() string {
	return "too much waits already: the bound of the " + f.Of + " is reached"
}

// ErrClosed means that a queue is closed.
var ErrClosed = errors.New("flow: the queue is closed")

// Queue holds waiting jobs, and counts the resources of running ones until they end. Its methods do not block and are
// safe for concurrent use. After [Queue.Put], [Queue.End], [Queue.Waits], [Queue.Shrink] or [Queue.Drop], the caller
// must call [Queue.Begin] until it returns nil.
type Queue[T any] struct {
	limits QueueLimits

	mu      sync.Mutex
	all     *node[T]
	waiting int
	closed  bool
	taken   chan struct{} // closed when the queue is closed and no job waits
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

// Put adds an item after all others of its sender. It has a size in bytes, and takes hands slots while it runs. The
// error is [ErrClosed] or a *[QueueFullError].
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

// Fits reports whether [Queue.Put] would accept an item of a sender now.
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

// Begin starts and returns the job whose turn it is. It returns nil if no job waits, or none for which there is room.
func (q *Queue[T]) Begin() *Job[T] {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.begin()
}

// begin is Begin. The caller holds q.mu.
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

// overtaken reports whether others may be served before an actor that needs more slots than are free: it would then
// hold more than Share. Otherwise no other may, because a large job would never get its turn.
func (q *Queue[T]) overtaken(actor *node[T], hands int64) bool {
	return q.limits.Share > 0 && actor.holds.Slots > 0 && actor.holds.Slots+hands > q.limits.Share
}

// Next calls End for j and then Begin.
func (q *Queue[T]) Next(j *Job[T]) *Job[T] {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end(j, now)
	return q.begin()
}

// End ends a running job.
func (q *Queue[T]) End(j *Job[T]) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end(j, now)
}

// end is End. The caller holds q.mu.
func (q *Queue[T]) end(j *Job[T], now time.Time) {
	for n := j.of; n != nil; n = n.parent {
		n.pace.Ended(now)
	}
	q.give(j, j.load)
	q.forget(j.of)
}

// Waits records that a running job needs no processor from now on. It may be called more than once.
func (q *Queue[T]) Waits(j *Job[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.give(j, Load{Running: j.load.Running})
}

// Shrink frees some of the slots of a running job.
func (q *Queue[T]) Shrink(j *Job[T], hands int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.give(j, Load{Slots: min(hands, j.load.Slots)})
}

// give frees some of the resources of a job. The caller holds q.mu.
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

// Drop removes a waiting job. It reports whether the job was still waiting.
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

// Close makes Put refuse items. The returned channel is closed when no job waits any more.
func (q *Queue[T]) Close() (taken <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		q.took(0)
	}
	return q.taken
}

// Clear removes all waiting jobs and returns their number.
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

// took records that n jobs no longer wait. The caller holds q.mu.
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

// idle is the number of nodes without a job that are kept: of tenants, and of actors of each tenant. They are likely to
// be needed again.
const idle = 64

// forget removes a sender without a job if more than idle are kept. The caller holds q.mu.
func (q *Queue[T]) forget(n *node[T]) {
	for ; n.parent != nil && n.holds.Items == 0; n = n.parent {
		n.credit = 0
		if siblings := n.parent.children; len(siblings) > idle && len(n.children) <= idle {
			delete(siblings, n.name)
		}
	}
}
