package exchange

import (
	"context"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Calls watches all open calls of a client. It sends their requests again, and gives a call up when there is no
// answer by the deadline. It never waits for the connection, so a connection that hangs keeps no caller past its
// deadline. One goroutine and one timer serve all calls, because timers for each call would cost more than all else
// that the client does for it.
type Calls struct {
	wake chan struct{} // there is an earlier time to look at a call

	mu    sync.Mutex
	open  timer.Heap[*Call]
	armed time.Time // when the watcher looks at calls next
	ended bool      // there will be no more calls
	// usual is the time after which the first answer to a request comes lately, see hear.
	usual time.Duration
}

// NewCalls returns a watcher, for which [Watch] must be running.
func NewCalls() *Calls { return &Calls{wake: make(chan struct{}, 1)} }

// Watch watches calls until the last one has ended after [Calls.End]. Each value from connected means that
// what was sent before may be lost.
func Watch[T any](c *Calls, connected <-chan T) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		pause, more := c.look(time.Now())
		if !more {
			return
		}
		timer.Reset(pause)
		select {
		case <-timer.C:
		case <-c.wake:
		case _, ok := <-connected:
			if c.reconnected(); !ok {
				connected = nil
			}
		}
	}
}

// End lets [Watch] end when the last call has. It reports whether no call is open.
func (c *Calls) End() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	timer.Notify(c.wake)
	return c.open.Len() == 0
}

// look handles the calls that are due. It returns the time until the next one is, and whether the watcher goes on.
func (c *Calls) look(now time.Time) (pause time.Duration, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for call, ok := c.open.Due(now); ok; call, ok = c.open.Due(now) {
		if at, more := c.see(call, now); more {
			c.open.Put(&call.place, at)
		}
	}
	c.armed = c.open.Next(now.Add(time.Hour))
	return c.armed.Sub(now), !c.ended || c.open.Len() > 0
}

// see sends the request of a call again, or ends the call. It returns when to look at the call next; more is false if
// the call was given up.
func (c *Calls) see(call *Call, now time.Time) (at time.Time, more bool) {
	late := now.Sub(call.Deadline)
	x := call.out
	if call.leaves || late >= callerGrace {
		call.giveUp()
		return at, false
	}
	if late >= 0 && x != nil {
		if r := x.refused(); r != nil || late >= workerGrace {
			x.finish(r)
		}
	}
	if x == nil || x.over {
		return call.Deadline.Add(callerGrace), true
	}
	if !x.again.After(now) {
		x.times++
		x.again = now.Add(nextResend(-late, x.times, x.accepted, c.usual))
		c.resend(x)
	}
	return earlier(x.again, call.Deadline.Add(workerGrace)), true
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// resend sends a request again, unless a copy of it still waits for the connection. Callers hold c.mu.
func (c *Calls) resend(x *request) {
	if !x.sending {
		x.sending = true
		x.copies.sent++
		x.Send()
	}
}

func (c *Calls) reconnected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for call := range c.open.All() {
		if x := call.out; x != nil && !x.over {
			c.resend(x)
			if x.Missed != nil {
				timer.Notify(x.Missed)
			}
		}
	}
}

// Add begins the watch over a call, whose caller has ctx. Remove the call when its caller has its result.
func (c *Calls) Add(ctx context.Context, call *Call, deadline time.Time) {
	call.ctx, call.results = ctx, make(chan Result, maxResults)
	c.mu.Lock()
	defer c.mu.Unlock()
	call.Deadline, call.place.Of = deadline, call
	c.put(call, deadline.Add(callerGrace))
}

// giveUp tells the caller of c to wait no longer, and ends its request. Callers hold the lock of the watcher.
func (c *Call) giveUp() {
	c.results <- Result{GivenUp: true}
	if c.out != nil {
		c.out.finish(nil)
	}
}

// move changes when the watcher looks at an open call, unless the caller is leaving. Callers hold c.mu.
func (c *Calls) move(call *Call, at time.Time) {
	if call.place.Queued() && !call.leaves {
		c.put(call, at)
	}
}

// put sets when the watcher looks at a call. It wakes the watcher only if that is earlier than the watcher's next look,
// which it rarely is. Callers hold c.mu.
func (c *Calls) put(call *Call, at time.Time) {
	if c.open.Put(&call.place, at); at.Before(c.armed) {
		c.armed = at
		timer.Notify(c.wake)
	}
}

// Due sets the deadline of a call, once its request has it.
func (c *Calls) Due(call *Call, deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call.Deadline = deadline
	c.move(call, deadline.Add(callerGrace))
}

// launch begins the watch over a request that is about to be sent. It returns false if the call has ended.
func (c *Calls) launch(x *request, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := x.Of
	if !call.place.Queued() || call.leaves {
		return false
	}
	call.out, x.sending, x.copies.sent, x.launched = x, true, 1, now
	c.later(x, now)
	return true
}

// later sets when a request is sent again. Callers hold c.mu.
func (c *Calls) later(x *request, now time.Time) {
	x.again = now.Add(nextResend(x.Of.Deadline.Sub(now), x.times, x.accepted, c.usual))
	c.move(x.Of, earlier(x.again, x.Of.Deadline.Add(workerGrace)))
}

// sent notes the end of a write of a copy. A copy that could not be sent is not counted; the next one is sent in its
// time.
func (c *Calls) sent(x *request, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.sending = false
	if err != nil {
		x.copies.sent--
		x.turnAway(nil)
	}
}

// hear notes how long the first answer to a request took. A network is slow for all requests, but if a dispatcher is
// dead, requests to others are answered soon. So a shorter time counts at once, and a longer one by an eighth. Callers
// hold c.mu.
func (c *Calls) hear(x *request, now time.Time) {
	if x.heard {
		return
	}
	x.heard = true
	took := min(now.Sub(x.launched), acceptedAgain)
	if c.usual > 0 && took > c.usual {
		took = c.usual + (took-c.usual)/8
	}
	c.usual = took
}

// accepted handles an acceptance: the call is durable.
func (c *Calls) accepted(x *request, a *envelope.Accepted, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hear(x, now)
	select {
	case x.Acceptances <- a: // nobody else sends
	default:
	}
	if x.accepted = true; x.Of.out == x && !x.over {
		c.later(x, now)
	}
}

// answered handles an answer to a request: an outcome or a refusal.
func (c *Calls) answered(x *request, r *envelope.Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hear(x, time.Now())
	switch {
	case x.accepted && r.Provenance.Attempt == 0:
		// A copy was refused. What was accepted has an outcome of its own.
	case IsProvisionalRefusal(r) && !isOfDamagedLog(r):
		x.turnAway(r)
	default:
		x.finish(r)
	}
}

// leave gives a call up after [lastWord], because its caller has cancelled it.
func (c *Calls) leave(call *Call, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.move(call, earlier(now.Add(lastWord), call.Deadline.Add(callerGrace)))
	call.leaves = true
}

// drop ends the watch over the request of a call, which goes on.
func (c *Calls) drop(call *Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call.out != nil {
		call.out.over, call.out = true, nil
	}
	c.move(call, call.Deadline.Add(callerGrace))
}

// Remove ends the watch over a call, and its request.
func (c *Calls) Remove(call *Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open.Remove(&call.place)
	if call.out != nil {
		call.out.finish(nil)
	}
	if c.ended {
		timer.Notify(c.wake)
	}
}

// Release gives all open calls up at once, because the server refuses the connection and no answer can come.
func (c *Calls) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for call, ok := c.open.Pop(); ok; call, ok = c.open.Pop() {
		call.giveUp()
	}
	timer.Notify(c.wake)
}

// Await returns the result of a call, or one that is GivenUp. It panics if a function of the call has panicked.
func (c *Calls) Await(call *Call) Result {
	for cancelled := call.ctx.Done(); ; {
		select {
		case r := <-call.results:
			if !r.GivenUp {
				call.rethrow()
			}
			return r
		case p := <-call.panicked:
			panic(p)
		case <-cancelled:
			if cancelled = nil; call.Cancelled() != nil {
				c.leave(call, time.Now())
			}
		}
	}
}

// Deadline returns the deadline of a call.
func (c *Calls) Deadline(call *Call) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return call.Deadline
}
