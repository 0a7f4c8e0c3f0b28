package crew

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestCrewRunsEveryJobAtOnce(t *testing.T) {
	const jobs = 3 * maxIdle
	var arrived sync.WaitGroup
	arrived.Add(jobs)
	var done atomic.Int32
	c := New(func(release chan struct{}) {
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
	c.End()
	if n := done.Load(); n != 3*jobs {
		t.Errorf("%d jobs done, want %d", n, 3*jobs)
	}
	if idle := c.idle.Load(); idle != 0 {
		t.Errorf("%d goroutines idle after the end", idle)
	}
}

func TestCrewTakesNoJobsAfterItsEnd(t *testing.T) {
	c := New(func(int) {})
	c.Dismiss()
	c.End()
	if c.Start(1) {
		t.Error("a dismissed crew takes a job")
	}
}
