package toolbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// The NATS client holds its lock while it connects anew, and everything that sends waits for
// that: as long as a frozen server takes, which accepts connections and says nothing. Large inputs take
// their time to check. Callers have deadlines, and are promised an answer at them, so what is done on their
// behalf is done beside them.

// inTime makes the call and returns its outcome, or the library's own statement when the
// deadline and its grace have passed; the error of ctx when that was cancelled before. The functions of call are
// not called after that.
func (c *Client) inTime(ctx context.Context, call Call, started time.Time) made {
	if call.Timeout != 0 && call.Timeout < time.Millisecond { // no time to look any closer
		req := c.request(call, nil)
		return made{req, c.refused(req, tooShort()), nil}
	}
	ctx, within, free, err := uncut(ctx, started)
	if err != nil {
		return made{err: err}
	}
	defer free()
	show := &show{panicked: make(chan *Panic, 1)}
	e := errand{
		ctx: ctx, call: show.of(call), show: show, started: started, within: within,
		known: make(chan time.Time, 2), done: make(chan made, 1),
	}
	e.deadline = started.Add(e.atMost(cmp.Or(call.Timeout, describeTime)))
	if !c.crew.Start(e) {
		return made{err: bus.ErrClosed}
	}
	return c.await(e)
}

// await returns what became of an errand.
func (c *Client) await(e errand) made {
	end := time.NewTimer(time.Until(e.deadline) + grace)
	defer end.Stop()
	show, cancelled := e.show, e.ctx.Done()
	for {
		select {
		case m := <-e.done:
			select {
			case p := <-show.panicked:
				panic(p)
			default:
			}
			return m
		case p := <-show.panicked:
			panic(p)
		case e.deadline = <-e.known:
			if e.ctx.Err() == nil {
				end.Reset(time.Until(e.deadline) + grace)
			}
		case <-cancelled:
			cancelled = nil
			end.Reset(lastWord)
		case <-end.C:
			return c.given(e)
		}
	}
}

// lastWord is how long a caller that goes away is kept, for an outcome that is here already.
const lastWord = 50 * time.Millisecond

// given is what is said of an errand that is given up: its caller went away, or the bus is silent.
func (c *Client) given(e errand) made {
	req := e.show.end()
	switch {
	case e.ctx.Err() != nil:
		return made{err: e.ctx.Err()}
	case req != nil:
		return made{req, c.unanswered(req, e.deadline, nil), nil} // nobody is asked why: there is no time left
	}
	e.requests(c, nil)
	return made{e.req, c.unsent(e.req, e.deadline, context.DeadlineExceeded), nil}
}

// uncut returns a context that ends when ctx is cancelled, but not at its deadline: that is the
// call's, too, at which there is an answer as at any deadline of a call. within is how long that is from started
// on; 0 is for ever.
func uncut(ctx context.Context, started time.Time) (own context.Context, within time.Duration, free func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, nil, err
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, 0, func() {}, nil
	}
	if within = deadline.Sub(started).Truncate(time.Millisecond); within < time.Millisecond {
		return nil, 0, nil, context.DeadlineExceeded
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel()
		}
	})
	return own, within, func() { stop(); cancel() }, nil
}

// errand is a call to be made beside its caller.
type errand struct {
	ctx      context.Context // ends the errand early
	call     Call
	show     *show
	started  time.Time
	within   time.Duration // that the caller has, from started on; 0 is for ever
	deadline time.Time
	known    chan time.Time // the deadline, where only a description of the tool says when it is
	done     chan made

	// Of the call, once it is prepared.
	req *envelope.Request
	fn  *function
}

// atMost is a timeout, but no longer than the caller has.
func (e *errand) atMost(timeout time.Duration) time.Duration {
	if e.within > 0 {
		return min(timeout, e.within)
	}
	return timeout
}

// requests makes the request of the call, for a tool that is described by t. A timeout that will be refused
// stays as it is.
func (e *errand) requests(c *Client, t *described) {
	e.req = c.request(e.call, t)
	k := &e.req.Constraints
	if k.TimeoutMS > envelope.MaxTimeoutMS {
		return
	}
	timeout := e.atMost(time.Duration(k.TimeoutMS) * time.Millisecond).Milliseconds()
	k.DeadlineUnixMS -= k.TimeoutMS - timeout
	k.TimeoutMS = timeout
}

// isDue notes when the call is to be answered, now that its request says so.
func (e *errand) isDue() {
	e.deadline = e.started.Add(time.Duration(e.req.Constraints.TimeoutMS) * time.Millisecond)
	if e.call.Timeout == 0 {
		e.known <- e.deadline
	}
}

// run ends soon after the deadline, when the connection lets go of it.
func (c *Client) run(e errand) {
	r, err := c.make(&e)
	e.done <- made{e.req, r, err}
}

// make prepares the call and makes it.
func (c *Client) make(e *errand) (*envelope.Response, error) {
	refusal, err := c.prepare(e)
	switch {
	case refusal != nil:
		return c.refused(e.req, refusal), nil
	case silent(err) && e.ctx.Err() == nil:
		return c.unsent(e.req, e.deadline, err), nil
	case errors.Is(err, nats.ErrPermissionViolation):
		return c.refused(e.req, c.inbox.NotAllowed(err)), nil
	case err != nil:
		return nil, err
	}
	e.req.Constraints.DeadlineUnixMS -= time.Since(e.started).Milliseconds() // what the preparation took
	r, err := c.attempts(*e)
	if err != nil {
		return r, err
	}
	return c.complete(e.ctx, e.fn, r, e.deadline), nil
}

// made is what became of a call.
type made struct {
	req      *envelope.Request
	response *envelope.Response
	err      error
}

// show lets a call be sent, and its functions be called, until it ends.
type show struct {
	mu       sync.Mutex
	sent     *envelope.Request // the first one
	over     bool
	panicked chan *Panic // in a function of the call; the first one
}

// Panic is what [Client.Call] panics with when a function of the call, which runs beside it, has panicked or
// ended its goroutine.
type Panic struct {
	Value any
	Stack []byte // where it panicked
}

// String says both.
func (p *Panic) String() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// caught ends the show when a function of the call panics, or ends the goroutine that it is called in. Defer it.
func (s *show) caught(returned *bool, err *error) {
	if *returned {
		return
	}
	p := recover()
	if p == nil { // runtime.Goexit, as a test that is failed from here
		p = "a function of the call has ended its goroutine"
	}
	s.over = true
	s.panicked <- &Panic{p, debug.Stack()} // no function is called after it
	*err = errStopped
}

// begin must be asked before a request is sent: not at all once the caller was told that nothing was.
func (s *show) begin(req *envelope.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent == nil && !s.over {
		s.sent = req
	}
	return !s.over
}

// end ends the show and returns what was sent first, nil for nothing.
func (s *show) end() *envelope.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	return s.sent
}

// of returns the call with its functions under the show's control.
func (s *show) of(call Call) Call {
	if accepted := call.Accepted; accepted != nil {
		call.Accepted = func(a envelope.Accepted) {
			_ = s.let(func() error { accepted(a); return nil })
		}
	}
	if chunk := call.Chunk; chunk != nil {
		call.Chunk = func(part envelope.Chunk) error {
			return s.let(func() error { return chunk(part) })
		}
	}
	return call
}

// let calls a function of the call, unless the show is over.
func (s *show) let(f func() error) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return errStopped
	}
	returned := false
	defer s.caught(&returned, &err)
	err = f()
	returned = true
	return err
}
