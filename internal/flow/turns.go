package flow

import "context"

// Turns limits how many pieces of work are done at a time. Senders take turns, however much each of them has to do. It
// is safe for concurrent use.
type Turns struct {
	queue *Queue[chan struct{}] // closed when it is the turn of a piece of work
}

// NewTurns returns Turns for n pieces of work at a time.
func NewTurns(n int64) *Turns {
	return &Turns{NewQueue[chan struct{}](QueueLimits{All: Load{Slots: n}, Quantum: 1})}
}

// Take waits for the turn of a sender, which ends with done. It calls waits if the turn is not at once. The error is
// that of ctx, which does not matter if the turn is at once.
func (t *Turns) Take(ctx context.Context, from Sender, waits func()) (done func(), err error) {
	job, err := awaitRoom(ctx, t.queue, from, 1, waits)
	if err != nil {
		return nil, err
	}
	return func() { t.queue.End(job); beginAll(t.queue) }, nil
}

// awaitRoom waits until a queue has room for n more of a sender, which then holds them as the job. It calls waits if it
// has to wait.
func awaitRoom(
	ctx context.Context, q *Queue[chan struct{}], from Sender, n int64, waits func(),
) (*Job[chan struct{}], error) {
	begun := make(chan struct{})
	job, err := q.Put(from, begun, n, n)
	if err != nil {
		return nil, err
	}
	beginAll(q)
	select {
	case <-begun:
		return job, nil
	default:
		waits()
	}
	select {
	case <-begun:
	case <-ctx.Done():
		if q.Drop(job) {
			beginAll(q)
			return nil, ctx.Err()
		}
	}
	return job, nil
}

// beginAll wakes each waiting sender for which the queue has room.
func beginAll(q *Queue[chan struct{}]) {
	for j := q.Begin(); j != nil; j = q.Begin() {
		close(j.Item)
	}
}
