package timer

import (
	"sync"
	"time"
)

// Queue is a [Heap] of values that are added once and removed when they are due. It is safe for concurrent use.
type Queue[T any] struct {
	Wake chan struct{} // receives a value when the earliest due time may have changed

	mu  sync.Mutex
	due Heap[T]
}

// NewQueue returns an empty Queue.
func NewQueue[T any]() *Queue[T] { return &Queue[T]{Wake: make(chan struct{}, 1)} }

// Add adds a value that is due at a time.
func (q *Queue[T]) Add(at time.Time, v T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.due.Put(&Entry[T]{Of: v}, at)
	if q.due.Next(at).Equal(at) {
		Notify(q.Wake)
	}
}

// Next removes and returns the values that are due at now. pause is the time until the next one is due, one hour at
// most.
func (q *Queue[T]) Next(now time.Time) (over []T, pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for v, ok := q.due.Due(now); ok; v, ok = q.due.Due(now) {
		over = append(over, v)
	}
	return over, q.due.Next(now.Add(time.Hour)).Sub(now)
}
