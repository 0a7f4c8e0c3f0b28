package admission

import (
	"sync"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/answer"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/check"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Queues has the queues of all keys with requests or waiting callers. Its methods are safe for concurrent use.
type Queues struct {
	mu    sync.Mutex
	byKey map[subjects.Key]*queue
}

// NewQueues returns Queues without any queue.
func NewQueues() *Queues { return &Queues{byKey: map[subjects.Key]*queue{}} }

// queue is the queue of one key in this dispatcher. A goroutine that adds a request to an idle queue serves it, so a
// dispatcher has at most one write in flight per key.
type queue struct {
	answer.Line
	joins int // number of join events written; sets the time that join waits

	mu       sync.Mutex
	busy     bool
	gone     bool // removed from Queues
	arrivals []arrival
	arriving int // size of arrivals in bytes
}

// arrival is a call that waits in a queue.
type arrival struct {
	*check.Call
	unsure bool // its admission may be in the log, or come into it
}

// maxArriving is the largest size, in bytes, of the requests that wait in one queue. Their handlers do not block, so
// they would pile up while the log does not answer.
const maxArriving = 32 << 20

// size returns the approximate memory of the request in bytes.
func (a arrival) size() int { return len(a.In.Body) + 1<<10 }

// arrive adds requests to the queue. Callers hold q.mu.
func (q *queue) arrive(as ...arrival) {
	q.arrivals = append(q.arrivals, as...)
	for _, a := range as {
		q.arriving += a.size()
	}
}

// leaveAll removes and returns all requests of the queue. Callers hold q.mu.
func (q *queue) leaveAll() []arrival {
	all := q.arrivals
	q.arrivals, q.arriving = nil, 0
	return all
}

func (q *queue) again(as []arrival) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.arrive(append(as, q.leaveAll()...)...)
}

// late returns the requests that have arrived meanwhile.
func (q *queue) late() []arrival {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.leaveAll()
}

// take returns the requests that have arrived, and the newest known state of the log. If no request has arrived, it
// marks the queue as idle.
func (q *queue) take() ([]arrival, call.State) {
	q.mu.Lock()
	defer q.mu.Unlock()
	batch := q.leaveAll()
	if len(batch) == 0 {
		q.busy = false
	}
	return batch, q.State()
}

// enter adds a request to the queue of its key. It returns the queue if the caller must serve it, or nil if another
// goroutine does, or if the queue is full.
func (s *Queues) enter(key subjects.Key, a arrival, known call.State) *queue {
	for {
		q := s.open(key)
		q.mu.Lock()
		if q.gone {
			q.mu.Unlock()
			continue
		}
		defer q.mu.Unlock()
		if q.arriving+a.size() > maxArriving {
			return nil
		}
		if known.Seq > 0 {
			q.Learn(known)
		}
		q.arrive(a)
		if q.busy {
			return nil
		}
		q.busy = true
		return q
	}
}

func (s *Queues) open(key subjects.Key) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byKey[key]
	if q == nil {
		q = &queue{Line: answer.Line{Key: key}}
		s.byKey[key] = q
	}
	return q
}

// Line returns the line of a key, or nil if the key has no queue.
func (s *Queues) Line(key subjects.Key) *answer.Line {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.byKey[key]; q != nil {
		return &q.Line
	}
	return nil
}

// Len returns the number of keys.
func (s *Queues) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byKey)
}

// Retire removes the queue of a line if it is idle and no caller waits.
func (s *Queues) Retire(l *answer.Line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.byKey[l.Key]
	if q == nil || &q.Line != l {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.busy && len(q.arrivals) == 0 && q.Idle() {
		q.gone = true
		delete(s.byKey, l.Key)
	}
}
