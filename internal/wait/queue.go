package wait

import (
	"container/heap"
	"sync"
	"time"
)

// Queue holds what is due at some time, nearest first. It is safe for concurrent use.
type Queue[T any] struct {
	Wake chan struct{} // has room for one: the nearest may have changed

	mu  sync.Mutex
	due dues[T]
}

// NewQueue returns an empty one.
func NewQueue[T any]() *Queue[T] { return &Queue[T]{Wake: make(chan struct{}, 1)} }

// Add puts in what is due at a time.
func (q *Queue[T]) Add(at time.Time, v T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	heap.Push(&q.due, due[T]{at, v})
	if q.due[0].at.Equal(at) {
		Signal(q.Wake)
	}
}

// Next takes out what is due now, and says how long it is to the one after that: an hour where there is none.
func (q *Queue[T]) Next(now time.Time) (over []T, pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.due) > 0 && !q.due[0].at.After(now) {
		over = append(over, heap.Pop(&q.due).(due[T]).what)
	}
	if len(q.due) == 0 {
		return over, time.Hour
	}
	return over, q.due[0].at.Sub(now)
}

type due[T any] struct {
	at   time.Time
	what T
}

type dues[T any] []due[T]

func (h dues[T]) Len() int           { return len(h) }
func (h dues[T]) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dues[T]) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dues[T]) Push(x any)        { *h = append(*h, x.(due[T])) }
func (h *dues[T]) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = due[T]{}
	*h = old[:len(old)-1]
	return last
}
