package flow

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

func TestCrewRunsEveryJobAtOnce(t *testing.T) {
	const jobs = 3 * maxIdle
	var arrived sync.WaitGroup
	arrived.Add(jobs)
	var done atomic.Int32
	c := NewWorkerPool(func(release chan struct{}) {
		arrived.Done()
		<-release
		done.Add(1)
	})
	for range 3 { // the second and third time with goroutines that are there
		release := make(chan struct{})
		for range jobs {
			if !c.Start(release) {
				t.Fatal("a crew at work refuses a job")
			}
		}
		arrived.Wait()
		arrived.Add(jobs)
		close(release)
	}
	c.Wait()
	if n := done.Load(); n != 3*jobs {
		t.Errorf("%d jobs done, want %d", n, 3*jobs)
	}
	if idle := c.idle.Load(); idle != 0 {
		t.Errorf("%d goroutines idle after the end", idle)
	}
}

func TestCrewTakesNoJobsAfterItsEnd(t *testing.T) {
	c := NewWorkerPool(func(int) {})
	c.Close()
	c.Wait()
	if c.Start(1) {
		t.Error("a dismissed crew takes a job")
	}
}

// A bounded crew does no more jobs at once than it may, whoever is refused after its end included.
func TestBoundedCrew(t *testing.T) {
	const most = 3
	var at, over atomic.Int32
	c := NewBoundedWorkerPool(most, func(int) {
		if at.Add(1) > most {
			over.Add(1)
		}
		runtime.Gosched()
		at.Add(-1)
	})
	var starters sync.WaitGroup
	for range 4 {
		starters.Go(func() {
			for i := range 50 {
				c.Start(i)
			}
		})
	}
	starters.Wait()
	c.Wait()
	for i := range most + 1 { // one that kept a slot for a job it does not take would wait for ever
		if c.Start(i) {
			t.Error("an ended crew takes a job")
		}
	}
	if n := over.Load(); n > 0 {
		t.Errorf("%d jobs began while %d were busy", n, most)
	}
}

// The end of a crew waits for what takes the place of a lost job, and not for the job.
func TestReplace(t *testing.T) {
	type job struct{ lost atomic.Bool }
	stuck, rest := make(chan struct{}), make(chan struct{})
	returned := make(chan struct{})
	var c *WorkerPool[*job]
	c = NewWorkerPool(func(j *job) {
		defer close(returned)
		j.lost.Store(true)
		c.Replace(func() { <-rest })
		<-stuck
	})
	c.Lost = func(j *job) bool { return j != nil && j.lost.Load() }
	c.Start(new(job))
	ended := make(chan struct{})
	go func() { c.Wait(); close(ended) }()
	rest <- struct{}{}
	<-ended
	close(stuck)
	<-returned
}

// A job that ends its goroutine keeps nobody waiting.
func TestJobEndsItsGoroutine(t *testing.T) {
	c := NewWorkerPool(func(int) { runtime.Goexit() })
	c.Start(1)
	c.Wait()
}
