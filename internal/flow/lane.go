package flow

import "time"

// Lane is a queue of messages and the goroutines that handle them. It is safe for concurrent use.
type Lane[M any] struct {
	queue   *Queue[M]
	workers *WorkerPool[*Job[M]]
}

// NewLane returns an empty lane. It calls do for each message, in as many goroutines at a time as limits permit. do may
// call waits when from then on it only waits and needs no processor. The caller must call Stop.
func NewLane[M any](limits QueueLimits, do func(m M, waits func())) *Lane[M] {
	l := &Lane[M]{queue: NewQueue[M](limits)}
	l.workers = NewWorkerPool(func(j *Job[M]) {
		for ; j != nil; j = l.queue.Next(j) {
			taken := j // j changes in the loop, so capturing it would allocate it on the heap
			do(j.Item, func() {
				l.queue.Waits(taken)
				l.start()
			})
		}
	})
	return l
}

// Put adds a message of a size in bytes. It does not block. It returns the errors of [Queue.Put].
func (l *Lane[M]) Put(from Sender, m M, bytes int64) error {
	_, err := l.queue.Put(from, m, bytes, 1)
	if err == nil {
		l.start()
	}
	return err
}

// Fits reports whether Put would accept a message now.
func (l *Lane[M]) Fits(from Sender, bytes int64) bool { return l.queue.Fits(from, bytes) }

// Stop makes Put refuse messages, and returns when the accepted ones are handled. It drops those whose handling has not
// begun after within.
func (l *Lane[M]) Stop(within time.Duration) {
	begun := l.queue.Close()
	select {
	case <-begun:
	case <-time.After(within):
		l.queue.Clear()
	}
	l.workers.Wait()
}

// start starts the handling of the messages whose turn it is.
func (l *Lane[M]) start() {
	for j := l.queue.Begin(); j != nil; j = l.queue.Begin() {
		if !l.workers.Start(j) { // the pool is closed: drop the message
			l.queue.End(j)
		}
	}
}
