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
	wake chan struct{} // there is an earlier time to look at a call

	mu    sync.Mutex
	open  timer.Heap[*watchedCall]
	armed time.Time // when the watcher looks at calls next
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

// look handles the calls that are due. It returns the time until the next one is, and whether the watcher goes on.
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

// see sends the request of a call again, or ends the call. It returns when to look at the call next; more is false if
// the call was given up.
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

// Add begins the watch over a call.
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

// move changes when the watcher looks at an open call, unless the caller is leaving. Callers hold w.mu.
func (w *inflight) move(e *watchedCall, at time.Time) {
	if e.place.Queued() && !e.leaves {
		w.put(e, at)
	}
}

// put sets when the watcher looks at a call. It wakes the watcher only if that is earlier than the watcher's next look,
// which it rarely is. Callers hold w.mu.
func (w *inflight) put(e *watchedCall, at time.Time) {
	if w.open.Put(&e.place, at); at.Before(w.armed) {
		w.armed = at
		timer.Notify(w.wake)
	}
}

// Due sets the deadline of a call, once its request has it.
func (w *inflight) Due(e *watchedCall, deadline time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.Deadline = deadline
	w.move(e, deadline.Add(watchGrace))
}

// Launch begins the watch over a request that is about to be sent. It returns false if the call has ended.
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

// later sets when a request is sent again. Callers hold w.mu.
func (w *inflight) later(x *sentRequest, now time.Time) {
	x.again = now.Add(nextResend(x.Of.Deadline.Sub(now), x.times, x.accepted))
	w.move(x.Of, earlier(x.again, x.Of.Deadline.Add(OwnGrace)))
}

// Sent notes the end of a write of a copy. A copy that could not be sent is not counted; the next one is sent in its
// time.
func (w *inflight) Sent(x *sentRequest, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	x.sending = false
	if err != nil {
		x.copies.sent--
		x.turnAway(nil)
	}
}

// Accepted handles an acceptance: the call is durable.
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

// Answered handles an answer to a request: an outcome or a refusal.
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

// Leave gives a call up after [lastWord], because its caller has cancelled it.
func (w *inflight) Leave(e *watchedCall, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.move(e, earlier(now.Add(lastWord), e.Deadline.Add(watchGrace)))
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

// Release gives all open calls up at once, because the server refuses the connection and no answer can come.
func (w *inflight) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for e, ok := w.open.Pop(); ok; e, ok = w.open.Pop() {
		e.giveUp()
	}
	timer.Notify(w.wake)
}

// Deadline returns the deadline of a call.
func (w *inflight) Deadline(e *watchedCall) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return e.Deadline
}
