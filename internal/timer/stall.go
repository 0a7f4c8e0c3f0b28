package timer

import (
	"sync"
	"sync/atomic"
	"time"
)

// beat is how far control timers are apart. One that is late by less says nothing.
const beat = 5 * time.Millisecond

// StallMeter measures by how much control timers are late because the machine is busy. With it, a check of times tells
// a slow product from a process that did not run.
type StallMeter struct {
	late atomic.Int64
	done chan struct{}
	wg   sync.WaitGroup
}

// StartStallMeter begins to watch.
func StartStallMeter() *StallMeter {
	w := &StallMeter{done: make(chan struct{})}
	w.wg.Go(w.run)
	return w
}

func (w *StallMeter) run() {
	timer := time.NewTimer(beat)
	defer timer.Stop()
	for {
		due := time.Now().Add(beat)
		select {
		case <-w.done:
			return
		case <-timer.C:
		}
		if by := time.Since(due); by > beat {
			w.late.Add(int64(by))
		}
		timer.Reset(beat)
	}
}

// Late returns by how much control timers were late altogether. What made them late made all else in this
// process late that was due then.
func (w *StallMeter) Late() time.Duration {
	<-time.After(2 * beat) // for the timer that is due now
	return time.Duration(w.late.Load())
}

// End ends the watch. It must be called once.
func (w *StallMeter) End() {
	close(w.done)
	w.wg.Wait()
}
