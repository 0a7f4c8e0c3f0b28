package client

import (
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// inflight watches all open calls of a client. It sends their requests again, and gives a call up when there is no
// answer by the deadline. It never waits for the connection, so a connection that hangs keeps no caller past its
// deadline. One goroutine and one timer serve all calls, because timers for each call would cost more than all else
// that the client does for it.
type inflight struct {
	wake chan struct{} // the nearest time may have changed

	mu    sync.Mutex
	open  timer.Heap[*watchedCall]
	armed time.Time // until then nothing is looked at
	ended bool      // there will be no more calls
}

// newInflight returns a watcher, for which [runInflight] must be running.
func newInflight() *inflight { return &inflight{wake: make(chan struct{}, 1)} }

// runInflight watches calls until the last one has ended after [inflight.End]. Each value from connected means that
// what was sent before may be lost.
func runInflight[T any](w *inflight, connected <-chan T) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		pause, more := w.look(time.Now())
		if !more {
			return
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-w.wake:
		case _, ok := <-connected:
			if w.reconnected(); !ok {
				connected = nil
			}
		}
	}
}

// End lets [runInflight] end when the last call has. It reports whether no call is open.
func (w *inflight) End() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	timer.Notify(w.wake)
	return w.open.Len() == 0
}

// look does what is due, and says for how long nothing will be.
func (w *inflight) look(now time.Time) (pause time.Duration, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e, ok := w.open.Due(now); ok; e, ok = w.open.Due(now) {
		if at, more := w.see(e, now); more {
			w.open.Put(&e.place, at)
		}
	}
	w.armed = w.open.Next(now.Add(time.Hour))
	return w.armed.Sub(now), !w.ended || w.open.Len() > 0
}

// see does what is due for one call, and says when to look at it next; false when it is given up.
func (w *inflight) see(e *watchedCall, now time.Time) (at time.Time, more bool) {
	late := now.Sub(e.Deadline)
	x := e.out
	if e.leaves || late >= watchGrace {
		e.giveUp()
		return at, false
	}
	if late >= 0 && x != nil {
		if r := x.turnedAway(); r != nil || late >= OwnGrace {
			x.ends(r)
		}
	}
	if x == nil || x.over {
		return e.Deadline.Add(watchGrace), true
	}
	if !x.again.After(now) {
		x.times++
		x.again = now.Add(nextResend(-late, x.times, x.accepted))
		w.resend(x)
	}
	return earlier(x.again, e.Deadline.Add(OwnGrace)), true
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// resend sends a request again, unless a copy of it still waits for the connection. Callers hold w.mu.
func (w *inflight) resend(x *sentRequest) {
	if !x.sending {
		x.sending = true
		x.copies.sent++
		x.Send()
	}
}

func (w *inflight) reconnected() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e := range w.open.All() {
		if x := e.out; x != nil && !x.over {
			w.resend(x)
			if x.Missed != nil {
				timer.Notify(x.Missed)
			}
		}
	}
}

// Add begins to look after a call.
func (w *inflight) Add(e *watchedCall, deadline time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Deadline, e.place.Of = deadline, e
	w.put(e, deadline.Add(watchGrace))
}

// giveUp tells the caller of e to wait no longer, and ends its request. Callers hold the lock of the watcher.
func (e *watchedCall) giveUp() {
	e.Result <- result{GivenUp: true}
	if e.out != nil {
		e.out.ends(nil)
	}
}

// move looks at an open call at another time, unless its caller goes away. Callers hold w.mu.
func (w *inflight) move(e *watchedCall, at time.Time) {
	if e.place.Queued() && !e.leaves {
		w.put(e, at)
	}
}

// put has a call looked at at a time. It wakes the watcher only if it would come too late: calls that come one after
// another wake nobody up. Callers hold w.mu.
func (w *inflight) put(e *watchedCall, at time.Time) {
	if w.open.Put(&e.place, at); at.Before(w.armed) {
		w.armed = at
		timer.Notify(w.wake)
	}
}

// Due says when a call is to be answered, now that this is known.
func (w *inflight) Due(e *watchedCall, deadline time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Deadline = deadline
	w.move(e, deadline.Add(watchGrace))
}

// Launch looks after a request that is about to be sent, unless its call is over.
func (w *inflight) Launch(x *sentRequest, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := x.Of
	if !e.place.Queued() || e.leaves {
		return false
	}
	e.out, x.sending, x.copies.sent = x, true, 1
	w.later(x, now)
	return true
}

// later says when a request is sent for the next time. Callers hold w.mu.
func (w *inflight) later(x *sentRequest, now time.Time) {
	x.again = now.Add(nextResend(x.Of.Deadline.Sub(now), x.times, x.accepted))
	w.move(x.Of, earlier(x.again, x.Of.Deadline.Add(OwnGrace)))
}

// Sent notes what became of a copy. One that could not be sent is none: the next one is sent in its time.
func (w *inflight) Sent(x *sentRequest, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.sending = false
	if err != nil {
		x.copies.sent--
		x.turnAway(nil)
	}
}

// Accepted notes that a call is durable.
func (w *inflight) Accepted(x *sentRequest, a *envelope.Accepted, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case x.Acceptances <- a: // nobody else sends
	default:
	}
	if x.accepted = true; x.Of.out == x && !x.over {
		w.later(x, now)
	}
}

// Answered takes an answer to a request.
func (w *inflight) Answered(x *sentRequest, r *envelope.Response) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case x.accepted && r.Provenance.Attempt == 0:
		// A copy was refused. What was accepted has an outcome of its own.
	case isProvisionalRefusal(r):
		x.turnAway(r)
	default:
		x.ends(r)
	}
}

// Leave says that the caller of a call goes away. It waits a little longer, for an outcome that is here already.
func (w *inflight) Leave(e *watchedCall, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.move(e, now.Add(lastWord))
	e.leaves = true
}

// Drop ends the watch over the request of a call, which goes on.
func (w *inflight) Drop(e *watchedCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.out != nil {
		e.out.over, e.out = true, nil
	}
	w.move(e, e.Deadline.Add(watchGrace))
}

// Remove ends the watch over a call, and its request.
func (w *inflight) Remove(e *watchedCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open.Remove(&e.place)
	if e.out != nil {
		e.out.ends(nil)
	}
	if w.ended {
		timer.Notify(w.wake)
	}
}

// Release ends the waiting of all open calls at once: nothing that is sent can be answered any more.
func (w *inflight) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e, ok := w.open.Pop(); ok; e, ok = w.open.Pop() {
		e.giveUp()
	}
	timer.Notify(w.wake)
}

// Deadline is that of a call.
func (w *inflight) Deadline(e *watchedCall) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return e.Deadline
}
