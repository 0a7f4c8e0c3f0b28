package client

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// The NATS client holds its lock while it connects anew, and everything that sends waits for
// that: as long as a frozen server takes, which accepts connections and says nothing. Large inputs take
// their time to check. Callers have deadlines, and are promised an answer at them, so what is done on their
// behalf is done beside them.

// callWithDeadline makes the call and returns its outcome, or the library's own statement when the
// deadline and its grace have passed; the error of ctx when that was cancelled before. The functions of call are
// not called after that.
func (c *Client) callWithDeadline(ctx context.Context, call Call, started time.Time) update {
	within, err := left(ctx, started)
	if err != nil {
		return update{Err: err}
	}
	e := &pendingCall{ctx: ctx, started: started, within: within}
	e.Told = make(chan update, maxUpdates)
	e.call = e.show.of(call)
	c.watch.Add(&e.watchedCall, started.Add(e.atMost(e.patience(call.Timeout))))
	defer c.unwatch(e)
	if c.IsPermissionDenied() != nil {
		return c.given(e, false)
	}
	if !c.crew.Start(func() { c.begin(e) }) {
		return update{Err: rpc.ErrClosed}
	}
	return c.await(e)
}

// await returns what became of an errand.
func (c *Client) await(e *pendingCall) update {
	for cancelled := e.ctx.Done(); ; {
		select {
		case m := <-e.Told:
			if m.Over {
				return c.given(e, false)
			}
			if !m.Raw {
				select {
				case p := <-e.show.panicked:
					panic(p)
				default:
				}
				return m
			}
			if m, ended := c.conclude(e, m.Response); ended {
				return m
			}
		case p := <-e.show.panicked:
			panic(p)
		case <-cancelled:
			if cancelled = nil; e.cancelled() != nil && c.watch.Leave(&e.watchedCall, time.Now()) {
				return c.given(e, false)
			}
		}
	}
}

// conclude is the end of a call without functions, unless more is to be done that may take its time: that is done
// beside its caller.
func (c *Client) conclude(e *pendingCall, r *envelope.Response) (_ update, ended bool) {
	switch {
	case r == nil:
		return c.given(e, true), true
	case r.Status == envelope.Success:
		ended = accepts(e.fn, r)
	default:
		ended = !e.mayRetry(1, r) && !isApart(r)
	}
	r = e.advised(r)
	if !ended && !c.crew.Start(func() { c.rest(e, r) }) {
		go c.rest(e, r) // the client was closed meanwhile; it ends with the call
	}
	return update{Request: e.req, Response: r}, ended
}

// accepts says whether a success is certainly what the tool promises.
func accepts(fn *function, r *envelope.Response) bool {
	return fn != nil && r.Provenance.OutputRef == nil && r.Provenance.Digest == fn.digest && fn.response.Accepts(r.Output)
}

// given is what is said of an errand that is given up: its caller went away, or the bus is silent. Why it is may be
// asked where there is time for that.
func (c *Client) given(e *pendingCall, ask bool) update {
	req, deadline, barred := e.show.end(), c.watch.Deadline(&e.watchedCall), c.IsPermissionDenied()
	switch {
	case e.cancelled() != nil:
		return update{Err: e.cancelled()}
	case req == nil:
		own := pendingCall{call: e.call, within: e.within} // e's request may be in the making
		own.requests(c, nil)
		if barred != nil {
			return update{Request: own.req, Response: c.excluded(own.req, deadline, barred, true)}
		}
		return update{Request: own.req, Response: c.unsent(own.req, deadline, context.DeadlineExceeded)}
	case barred != nil:
		return update{Request: req, Response: c.excluded(req, deadline, barred, false)}
	}
	var why error
	if ask {
		why = c.inbox.Forbidden(c.subject(req.ToolID))
	}
	return update{Request: req, Response: c.unanswered(req, deadline, why)}
}

// unwatch ends the watch over an errand, and the hearing of answers to it.
func (c *Client) unwatch(e *pendingCall) {
	if r := c.watch.Remove(&e.watchedCall); r != nil {
		c.inbox.Drop(r.Reply)
	}
}

// left returns the time from started to the deadline of ctx, in whole milliseconds, or 0 if ctx has no deadline. The
// error is that of ctx, or [context.DeadlineExceeded] if less than 1 ms is left.
func left(ctx context.Context, started time.Time) (time.Duration, error) {
	deadline, ok := ctx.Deadline()
	if err := ctx.Err(); err != nil || !ok {
		return 0, err
	}
	if left := deadline.Sub(started).Truncate(time.Millisecond); left >= time.Millisecond {
		return left, nil
	}
	return 0, context.DeadlineExceeded
}

// pendingCall is a call to be made beside its caller.
type pendingCall struct {
	ctx     context.Context // of the caller; see cancelled
	call    Call
	show    callbacks
	started time.Time
	within  time.Duration // that the caller has, from started on; 0 is for ever
	watchedCall

	// Of the call, once it is prepared.
	req         *envelope.Request
	fn          *function              // nil if it is not known
	described   bool                   // the tool is known
	pool        string                 // of the tool
	unnamed     *envelope.Error        // the functions of the tool, if the call names none of several
	undescribed *envelope.Error        // why dispatchers do not describe the tool
	inexact     []jsonschema.Violation // what of the input is no I-JSON
}

// cancelled returns the error of the caller's context if the caller has cancelled the call, and nil otherwise. A
// deadline of that context cancels nothing: it is the deadline of the call, at which the caller gets an answer.
func (e *pendingCall) cancelled() error {
	if err := e.ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// graced returns a context that ends [flight.OwnGrace] after the deadline of the call, or when the caller cancels the
// call. It is for requests to the bus that the call needs, such as those for a large output.
func (e *pendingCall) graced() (context.Context, context.CancelFunc) {
	own, cancel := context.WithDeadline(context.WithoutCancel(e.ctx), e.Deadline.Add(OwnGrace))
	stop := context.AfterFunc(e.ctx, func() {
		if e.cancelled() != nil {
			cancel()
		}
	})
	return own, func() { stop(); cancel() }
}

// patience is the time that an answer to a call with a timeout is waited for. A call whose timeout is out of range has
// no deadline, and is refused as soon as a dispatcher reads it.
func (e *pendingCall) patience(timeout time.Duration) time.Duration {
	if timeout == 0 || !valid(timeout) {
		return describeTime
	}
	return timeout
}

// atMost is a timeout, but no longer than the caller has.
func (e *pendingCall) atMost(timeout time.Duration) time.Duration {
	if e.within > 0 {
		return min(timeout, e.within)
	}
	return timeout
}

// requests makes the request of the call, for a tool that is described by t. A timeout that will be refused
// stays as it is.
func (e *pendingCall) requests(c *Client, t *described) {
	e.req = c.request(e.call, t)
	k := &e.req.Constraints
	if !valid(e.call.Timeout) {
		return
	}
	timeout := e.atMost(time.Duration(k.TimeoutMS) * time.Millisecond).Milliseconds()
	k.DeadlineUnixMS -= k.TimeoutMS - timeout
	k.TimeoutMS = timeout
}

// isDue notes when the call is to be answered, now that its request says so.
func (c *Client) isDue(e *pendingCall) {
	if timeout := time.Duration(e.req.Constraints.TimeoutMS) * time.Millisecond; valid(e.call.Timeout) {
		c.watch.Due(&e.watchedCall, e.started.Add(timeout))
	}
}

// begin prepares the call and sends its request; it ends soon after the deadline, when the connection lets go of it.
// The outcome of a call without functions goes to its caller, without anybody waiting for it here.
func (c *Client) begin(e *pendingCall) {
	r, err := c.ready(e)
	if r == nil && err == nil {
		attempt := c.once
		if e.call.OnAccepted == nil && e.call.OnChunk == nil {
			attempt = c.first
		}
		switch r, err = attempt(e, e.req); {
		case err == nil && r == nil:
			return
		case r == nil && errors.Is(err, context.DeadlineExceeded) && e.cancelled() == nil:
			r, err = c.unsent(e.req, e.Deadline, err), nil
		case err == nil:
			c.rest(e, r)
			return
		}
	}
	e.Told <- update{Request: e.req, Response: r, Err: err}
}

// first sends the request of a call without functions, and returns nothing if that was possible.
func (c *Client) first(e *pendingCall, req *envelope.Request) (*envelope.Response, error) {
	x, err := c.open(e, req, e.Told)
	if err != nil {
		return c.unready(req, err)
	}
	if err = c.start(x); err != nil {
		c.shut(x)
	}
	return nil, err
}

// ready prepares the call. A response says why it cannot be made.
func (c *Client) ready(e *pendingCall) (*envelope.Response, error) {
	refusal, err := c.prepare(e)
	switch {
	case refusal != nil:
		return c.refused(e.req, refusal), nil
	case c.silent(err) && e.cancelled() == nil:
		asked := subjects.Service(subjects.OpDescribe, c.Tenant, c.Actor)
		return c.unsent(e.req, e.Deadline, cmp.Or(c.inbox.Forbidden(asked), err)), nil
	case errors.Is(err, nats.ErrPermissionViolation):
		return c.refused(e.req, c.inbox.NotAllowed(err)), nil
	case err != nil:
		return nil, err
	}
	e.req.Constraints.DeadlineUnixMS -= time.Since(e.started).Milliseconds() // what the preparation took
	return nil, nil
}

// rest does what is left to be done after the first attempt, of which r is the outcome.
func (c *Client) rest(e *pendingCall, r *envelope.Response) {
	r, err := c.attempts(e, r)
	if err == nil {
		r = c.complete(e, e.advised(r))
	}
	e.Told <- update{Request: e.req, Response: r, Err: err}
}
