package crew

import (
	"sync"
	"sync/atomic"
)

// Crew runs jobs, each in a goroutine of its own, and uses the goroutines again: a fresh one
// would have to grow its stack anew for every message.
type Crew[J any] struct {
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

// New returns a crew that does jobs by calling do. It is safe for concurrent use.
func New[J any](do func(J)) *Crew[J] { return &Crew[J]{do: do, jobs: make(chan J)} }

// Bounded returns a crew that does at most so many jobs at once: Start waits while all are busy.
func Bounded[J any](most int, do func(J)) *Crew[J] {
	slots := make(chan struct{}, most)
	c := New(func(job J) {
		do(job)
		<-slots
	})
	c.slots = slots
	return c
}

// Start runs one job, unless the crew has ended, and reports whether it does.
func (c *Crew[J]) Start(job J) (taken bool) {
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

func (c *Crew[J]) work(job J) {
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

func (c *Crew[J]) lost(job J) bool { return c.Lost != nil && c.Lost(job) }

// Replace runs rest in a new goroutine, which takes the place of that of a lost job: End waits for rest instead of the
// job.
func (c *Crew[J]) Replace(rest func()) {
	go func() {
		defer c.wg.Done()
		rest()
	}()
}

// Dismiss takes no more jobs; those that run go on.
func (c *Crew[J]) Dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.ended = true
		close(c.jobs)
	}
}

// End takes no more jobs and waits for those that run.
func (c *Crew[J]) End() {
	c.Dismiss()
	c.wg.Wait()
}
