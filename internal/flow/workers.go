package flow

import (
	"sync"
	"sync/atomic"
)

// WorkerPool runs each job in its own goroutine. It reuses goroutines, because a new one would have to grow its stack
// for every job. It is safe for concurrent use.
type WorkerPool[J any] struct {
	// Lost reports whether Replace was called for a job that returns or whose goroutine ends. Set it before the first job.
	// It may be nil if Replace is never called.
	Lost func(J) bool

	do    func(J)
	slots chan struct{} // each job takes one; nil: no limit
	jobs  chan J
	idle  atomic.Int32
	wg    sync.WaitGroup

	mu    sync.RWMutex
	ended bool
}

// maxIdle is the number of idle goroutines that a pool keeps.
const maxIdle = 64

// NewWorkerPool returns a pool that calls do for each job.
func NewWorkerPool[J any](do func(J)) *WorkerPool[J] {
	return &WorkerPool[J]{do: do, jobs: make(chan J)}
}

// NewBoundedWorkerPool returns a pool that runs at most most jobs at a time. Start blocks while so many run.
func NewBoundedWorkerPool[J any](most int, do func(J)) *WorkerPool[J] {
	slots := make(chan struct{}, most)
	c := NewWorkerPool(func(job J) {
		do(job)
		<-slots
	})
	c.slots = slots
	return c
}

// Start runs a job in a goroutine, unless the pool is closed. It reports whether it does.
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

// Replace runs rest in a new goroutine, in place of a job whose goroutine may never end: Wait waits for rest instead of
// the job.
func (c *WorkerPool[J]) Replace(rest func()) {
	go func() {
		defer c.wg.Done()
		rest()
	}()
}

// Close makes Start refuse jobs. Running jobs continue.
func (c *WorkerPool[J]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.ended = true
		close(c.jobs)
	}
}

// Wait calls Close and waits for the running jobs.
func (c *WorkerPool[J]) Wait() {
	c.Close()
	c.wg.Wait()
}
