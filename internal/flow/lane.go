package flow

import "time"

// Lane is a queue of messages and the goroutines that handle them. It is safe for concurrent use.
type Lane[M any] struct {
	queue   *Queue[M]
	workers *WorkerPool[*Job[M]]
}

// NewLane returns an empty lane. It calls do for each message, in as many goroutines at once as limits allow. do may
// call waits once it only waits for others. Stop the lane when done.
func NewLane[M any](limits QueueLimits, do func(m M, waits func())) *Lane[M] {
	l := &Lane[M]{queue: NewQueue[M](limits)}
	l.workers = NewWorkerPool(func(j *Job[M]) {
		for ; j != nil; j = l.queue.Next(j) {
			taken := j // j itself changes, so that it would have to be on the heap
			do(j.Item, func() {
				l.queue.Waits(taken)
				l.start()
			})
		}
	})
	return l
}

// Put adds a message of a size in bytes. It never waits. The error is that of [Queue.Put].
func (l *Lane[M]) Put(from Sender, m M, bytes int64) error {
	_, err := l.queue.Put(from, m, bytes, 1)
	if err == nil {
		l.start()
	}
	return err
}

// Fits reports whether Put would take a message now.
func (l *Lane[M]) Fits(from Sender, bytes int64) bool { return l.queue.Fits(from, bytes) }

// Stop takes no more messages, and returns when those that are here are handled. It drops the messages that no
// goroutine has begun to handle within a time.
func (l *Lane[M]) Stop(within time.Duration) {
	begun := l.queue.Close()
	select {
	case <-begun:
	case <-time.After(within):
		l.queue.Clear()
	}
	l.workers.Wait()
}

// start lets goroutines handle the messages whose turn it is.
func (l *Lane[M]) start() {
	for j := l.queue.Begin(); j != nil; j = l.queue.Begin() {
		if !l.workers.Start(j) { // its sender asks another dispatcher
			l.queue.End(j)
		}
	}
}
