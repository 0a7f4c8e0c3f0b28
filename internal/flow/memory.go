package flow

import (
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
)

// DefaultMemory is the room of a part that is not told otherwise, in bytes: twice the largest payload, which is what
// one costs while it is read.
const DefaultMemory = 128 << 20

const (
	// worthCollecting is how many bytes may lie about as garbage. The collector by itself lets as much gather as is
	// alive, so that six payloads of 50 MB one after another would take as much as all at once.
	worthCollecting = 32 << 20
	// worthReturning is how many bytes that were in use are given back to the system once no payload is held: left to
	// itself the runtime keeps them for minutes. Fewer are sooner needed again than returned.
	worthReturning = 64 << 20
)

// Why nobody waits for room.
var (
	ErrTooLarge       = errors.New("flow: more memory than there is altogether")
	ErrTooManyWaiters = errors.New("flow: too many hold memory or wait for it")
)

// MemoryBudget is a number of bytes, to be shared. Senders take turns; one that would hold more than half of it waits
// where there is too little, and keeps nobody else waiting. It is safe for concurrent use.
type MemoryBudget struct {
	total int64
	queue *Queue[chan struct{}] // closed when there is room

	mu      sync.Mutex
	held    int64
	garbage int64 // about how much there is
	used    int64 // since memory was last returned to the system
}

// turn is the number of bytes that a sender gets in one turn.
const turn = 1 << 20

// NewMemoryBudget returns a budget of total bytes; 0 means [DefaultMemory]. At most most callers may hold memory or
// wait for it at once, and at most each of one sender; 0 means no limit.
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

// Acquire waits for n bytes. Senders take turns. The error is [ErrTooLarge], [ErrTooManyWaiters], or that of ctx.
func (r *MemoryBudget) Acquire(ctx context.Context, from Sender, n int64) (*Reservation, error) {
	if n > r.total {
		return nil, ErrTooLarge
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	begun := make(chan struct{})
	job, err := r.queue.Put(from, begun, n, n)
	if err != nil {
		return nil, ErrTooManyWaiters
	}
	r.begin()
	select {
	case <-begun:
	case <-ctx.Done():
		if r.queue.Drop(job) {
			r.begin()
			return nil, ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held += n
	r.used += n
	return &Reservation{room: r, job: job, bytes: n}, nil
}

// begin lets all go on for whom there is room.
func (r *MemoryBudget) begin() {
	for j := r.queue.Begin(); j != nil; j = r.queue.Begin() {
		close(j.Item)
	}
}

// spend collects garbage of n bytes, of which held ones are given back, when there is enough of it.
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

// Reservation is a part of a room.
type Reservation struct {
	room  *MemoryBudget
	job   *Job[chan struct{}]
	mu    sync.Mutex
	bytes int64
}

// Bytes returns how large the share is.
func (s *Reservation) Bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// Spent says that n bytes of the share are not referred to any more, and may be used again.
func (s *Reservation) Spent(n int64) { s.room.spend(n, 0) }

// Keep gives back all of the share but n bytes, to which alone something refers any more.
func (s *Reservation) Keep(n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	back := s.bytes - n
	if back <= 0 {
		return
	}
	s.bytes = n
	s.room.spend(back, back) // before somebody else fills it
	if s.room.queue.Shrink(s.job, back); n == 0 {
		s.room.queue.End(s.job)
	}
	s.room.begin()
}

// Release gives all of it back. It may be called again.
func (s *Reservation) Release() { s.Keep(0) }
