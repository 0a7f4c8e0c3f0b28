package timer

import (
	"container/heap"
	"iter"
	"time"
)

// Heap is a priority queue of entries, ordered by due time. The zero value is empty. It is not safe for concurrent use.
type Heap[T any] struct{ entries entries[T] }

// Entry is an element of a Heap. An Entry with only Of set is in no heap.
type Entry[T any] struct {
	Of    T
	at    time.Time
	place int // index in the heap plus 1; 0 if the entry is in no heap
}

// At returns the time at which the entry is or was due.
func (e *Entry[T]) At() time.Time { return e.at }

// Queued reports whether the entry is in a heap.
func (e *Entry[T]) Queued() bool { return e.place > 0 }

// Put adds an entry with a due time. If the entry is in the heap, Put changes its due time.
func (h *Heap[T]) Put(e *Entry[T], at time.Time) {
	if e.at = at; e.Queued() {
		heap.Fix(&h.entries, e.place-1)
		return
	}
	heap.Push(&h.entries, e)
}

// Remove removes an entry if it is in the heap.
func (h *Heap[T]) Remove(e *Entry[T]) {
	if e.Queued() {
		heap.Remove(&h.entries, e.place-1)
	}
}

// Due removes the entry with the earliest due time and returns its Of. ok is false if no entry is due at now.
func (h *Heap[T]) Due(now time.Time) (of T, ok bool) {
	if len(h.entries) == 0 || h.entries[0].at.After(now) {
		return of, false
	}
	return h.Pop()
}

// Pop removes the entry with the earliest due time and returns its Of. ok is false if the heap is empty.
func (h *Heap[T]) Pop() (of T, ok bool) {
	if len(h.entries) == 0 {
		return of, false
	}
	return heap.Pop(&h.entries).(*Entry[T]).Of, true
}

// Next returns the earliest due time, but at most latest.
func (h *Heap[T]) Next(latest time.Time) time.Time {
	if len(h.entries) > 0 && h.entries[0].at.Before(latest) {
		return h.entries[0].at
	}
	return latest
}

// Len returns the number of entries.
func (h *Heap[T]) Len() int { return len(h.entries) }

// All yields the Of of all entries, in no particular order. The heap must not change during the iteration.
func (h *Heap[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, e := range h.entries {
			if !yield(e.Of) {
				return
			}
		}
	}
}

// entries implements heap.Interface.
type entries[T any] []*Entry[T]

func (h entries[T]) Len() int           { return len(h) }
func (h entries[T]) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h entries[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}
func (h *entries[T]) Push(x any) {
	e := x.(*Entry[T])
	*h = append(*h, e)
	e.place = len(*h)
}
func (h *entries[T]) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last], e.place = nil, 0
	*h = (*h)[:last]
	return e
}
