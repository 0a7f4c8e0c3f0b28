package timertest

import (
	"sync"
	"sync/atomic"
	"time"
)

// beat is the interval of the control timer. Delays up to beat are ignored.
const beat = 5 * time.Millisecond

// StallMeter adds up the delays of a control timer that are longer than 5 ms. With the sum, a test distinguishes slow
// code from a process that got no processor time.
type StallMeter struct {
	late atomic.Int64
	done chan struct{}
	wg   sync.WaitGroup
}

// StartStallMeter starts measuring. The caller must call End.
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

// Late returns the sum of the delays so far. The machine delayed all other timers of the process that were due at those
// times, too.
func (w *StallMeter) Late() time.Duration {
	<-time.After(2 * beat) // includes the delay of the current timer
	return time.Duration(w.late.Load())
}

// End stops measuring. It must be called once.
func (w *StallMeter) End() {
	close(w.done)
	w.wg.Wait()
}
