package timer

import (
	"sync"
	"time"
)

// Queue is a [Heap] of things that are added once and taken out when they are due. It is safe for concurrent use.
type Queue[T any] struct {
	Wake chan struct{} // has room for one: the nearest may have changed

	mu  sync.Mutex
	due Heap[T]
}

// NewQueue returns an empty one.
func NewQueue[T any]() *Queue[T] { return &Queue[T]{Wake: make(chan struct{}, 1)} }

// Add puts in what is due at a time.
func (q *Queue[T]) Add(at time.Time, v T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.due.Put(&Entry[T]{Of: v}, at)
	if q.due.Next(at).Equal(at) {
		Notify(q.Wake)
	}
}

// Next takes out what is due now, and says how long it is to the one after that: an hour where there is none.
func (q *Queue[T]) Next(now time.Time) (over []T, pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for v, ok := q.due.Due(now); ok; v, ok = q.due.Due(now) {
		over = append(over, v)
	}
	return over, q.due.Next(now.Add(time.Hour)).Sub(now)
}
