// Package stalls tells how late a process is that a busy machine keeps waiting, so that whoever judges times can
// tell what was slow from what did not get to run.
package stalls

import (
	"sync"
	"sync/atomic"
	"time"
)

// beat is how far control timers are apart. One that is late by less says nothing.
const beat = 5 * time.Millisecond

// Watch watches control timers until its end.
type Watch struct {
	late atomic.Int64
	done chan struct{}
	wg   sync.WaitGroup
}

// Begin begins to watch.
func Begin() *Watch {
	w := &Watch{done: make(chan struct{})}
	w.wg.Go(w.run)
	return w
}

func (w *Watch) run() {
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
func (w *Watch) Late() time.Duration {
	<-time.After(2 * beat) // for the timer that is due now
	return time.Duration(w.late.Load())
}

// End ends the watch. It must be called once.
func (w *Watch) End() {
	close(w.done)
	w.wg.Wait()
}
