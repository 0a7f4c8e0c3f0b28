package flow

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
)

// DefaultMemory is the default size of a budget in bytes: twice the largest payload, which is the memory that reading
// it takes.
const DefaultMemory = 128 << 20

const (
	// worthCollecting is the number of released bytes after which the garbage collector is run. By itself, the collector
	// lets as much garbage accumulate as there is live memory: six payloads of 50 MB in sequence would take as much memory
	// as all at once.
	worthCollecting = 32 << 20
	// worthReturning is the number of used bytes from which on memory is returned to the operating system when no
	// reservation is held. By itself, the runtime would keep it for minutes. Less is usually needed again soon.
	worthReturning = 64 << 20
)

// Errors of [MemoryBudget.Acquire].
var (
	ErrTooLarge       = errors.New("flow: more memory than there is altogether")
	ErrTooManyWaiters = errors.New("flow: too many hold memory or wait for it")
)

// MemoryBudget limits the memory that is reserved at a time. Senders take turns. If there is too little room for a
// sender that would then hold more than half of the budget, others are served before it. It is safe for concurrent use.
type MemoryBudget struct {
	total int64
	queue *Queue[chan struct{}] // closed when there is room

	mu      sync.Mutex
	held    int64
	garbage int64 // estimate of the garbage in bytes
	used    int64 // since memory was last returned to the system
}

// turn is the number of bytes that a sender gets in one turn.
const turn = 1 << 20

// NewMemoryBudget returns a budget of total bytes; 0 means [DefaultMemory]. most is the limit of reservations that are
// held or waited for at a time, and each that of one sender; 0 means no limit.
func NewMemoryBudget(total, each, most int64) *MemoryBudget {
	if total == 0 {
		total = DefaultMemory
	}
	return &MemoryBudget{total: total, queue: NewQueue[chan struct{}](QueueLimits{
		Actor: Load{Items: each}, All: Load{Items: most, Slots: total}, Quantum: turn, Share: total / 2,
	})}
}

// Total returns the size of the budget in bytes.
func (r *MemoryBudget) Total() int64 { return r.total }

// Acquire waits until n bytes are free and reserves them. The caller must call [Reservation.Release]. The error is
// [ErrTooLarge], [ErrTooManyWaiters], or that of ctx.
func (r *MemoryBudget) Acquire(ctx context.Context, from Sender, n int64) (*Reservation, error) {
	if n > r.total {
		return nil, ErrTooLarge
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	job, err := awaitRoom(ctx, r.queue, from, n, func() {})
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, ErrTooManyWaiters
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held += n
	r.used += n
	return &Reservation{room: r, job: job, bytes: n}, nil
}

// spend records n bytes as garbage and held bytes as no longer reserved. It runs the garbage collector when there is
// enough garbage.
func (r *MemoryBudget) spend(n, held int64) {
	r.mu.Lock()
	r.garbage += n
	r.held -= held
	collect := r.garbage >= worthCollecting
	giveBack := r.held == 0 && r.used >= worthReturning
	if collect || giveBack {
		r.garbage = 0
	}
	if giveBack {
		r.used = 0
	}
	r.mu.Unlock()
	switch {
	case giveBack:
		debug.FreeOSMemory()
	case collect:
		runtime.GC()
	}
}

// Reservation is a reserved part of a [MemoryBudget]. Its methods are safe for concurrent use.
type Reservation struct {
	room  *MemoryBudget
	job   *Job[chan struct{}]
	mu    sync.Mutex
	bytes int64
}

// Bytes returns the size of the reservation.
func (s *Reservation) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Spent records that n bytes of the reservation are garbage, which the collector may free. The size of the reservation
// stays the same.
func (s *Reservation) Spent(n int64) { s.room.spend(n, 0) }

// Keep reduces the reservation to n bytes. Nothing may refer to the rest. It does nothing if the reservation is not
// larger than n.
func (s *Reservation) Keep(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	back := s.bytes - n
	if back <= 0 {
		return
	}
	s.bytes = n
	s.room.spend(back, back) // before another caller uses the room
	if s.room.queue.Shrink(s.job, back); n == 0 {
		s.room.queue.End(s.job)
	}
	beginAll(s.room.queue)
}

// Release ends the reservation. It may be called more than once.
func (s *Reservation) Release() { s.Keep(0) }
