package flow

import (
	"sync"
	"sync/atomic"
)

// WorkerPool runs jobs, each in a goroutine of its own, and uses the goroutines again: a fresh one
// would have to grow its stack anew for every message.
type WorkerPool[J any] struct {
	// Lost reports, of a job that returns or ends its goroutine, whether Replace was called for it. Set it before the
	// first job; nil is for jobs that all return.
	Lost func(J) bool

	do    func(J)
	slots chan struct{} // one is taken by each job; nil where there are as many as jobs
	jobs  chan J
	idle  atomic.Int32
	wg    sync.WaitGroup

	mu    sync.RWMutex
	ended bool
}

// maxIdle is how many goroutines of a crew stay when there is nothing to do.
const maxIdle = 64

// NewWorkerPool returns a crew that does jobs by calling do. It is safe for concurrent use.
func NewWorkerPool[J any](do func(J)) *WorkerPool[J] {
	return &WorkerPool[J]{do: do, jobs: make(chan J)}
}

// NewBoundedWorkerPool returns a crew that does at most so many jobs at once: Start waits while all are busy.
func NewBoundedWorkerPool[J any](most int, do func(J)) *WorkerPool[J] {
	slots := make(chan struct{}, most)
	c := NewWorkerPool(func(job J) {
		do(job)
		<-slots
	})
	c.slots = slots
	return c
}

// Start runs one job, unless the crew has ended, and reports whether it does.
func (c *WorkerPool[J]) Start(job J) (taken bool) {
	if c.slots != nil {
		c.slots <- struct{}{}
		defer func() {
			if !taken {
				<-c.slots
			}
		}()
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.ended {
		return false
	}
	select {
	case c.jobs <- job:
	default:
		c.wg.Add(1)
		go c.work(job)
	}
	return true
}

func (c *WorkerPool[J]) work(job J) {
	defer func() {
		if !c.lost(job) {
			c.wg.Done()
		}
	}()
	for ok := true; ok; c.idle.Add(-1) {
		if c.do(job); c.lost(job) {
			return
		}
		if c.idle.Add(1) > maxIdle {
			ok = false
			continue
		}
		job, ok = <-c.jobs
	}
}

func (c *WorkerPool[J]) lost(job J) bool { return c.Lost != nil && c.Lost(job) }

// Replace runs rest in a new goroutine, which takes the place of that of a lost job: End waits for rest instead of the
// job.
func (c *WorkerPool[J]) Replace(rest func()) {
	go func() {
		defer c.wg.Done()
		rest()
	}()
}

// Close takes no more jobs; those that run go on.
func (c *WorkerPool[J]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.ended = true
		close(c.jobs)
	}
}

// Wait takes no more jobs and waits for those that run.
func (c *WorkerPool[J]) Wait() {
	c.Close()
	c.wg.Wait()
}
