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

// callWithDeadline makes the call and returns its outcome, or the library's own statement if there is none when the
// deadline and its grace have passed, or the error of ctx if that was cancelled before. It calls no function of the
// call after it has returned. keyed: the key of the call is not one that the client has made.
//
// A worker makes the call, because the caller must have its answer in time. A connection of nats.go holds its lock
// while it connects again, and a server that accepts connections and says nothing makes that last. The check of a
// large input takes time, too.
func (c *Client) callWithDeadline(ctx context.Context, call Call, keyed bool, started time.Time) result {
	within, err := left(ctx, started)
	if err != nil {
		return result{Err: err}
	}
	e := &pendingCall{ctx: ctx, started: started, within: within, keyed: keyed}
	e.Result = make(chan result, maxResults)
	e.call = e.callbacks.of(call)
	c.watch.Add(&e.watchedCall, started.Add(e.atMost(e.patience(call.Timeout))))
	defer c.watch.Remove(&e.watchedCall)
	if c.IsPermissionDenied() != nil {
		return c.givenUp(e)
	}
	if !c.crew.Start(func() { c.run(e) }) {
		return result{Err: rpc.ErrClosed}
	}
	return c.await(e)
}

// run makes the call, beside its caller, and says what became of it.
func (c *Client) run(e *pendingCall) {
	r, err := c.outcome(e)
	e.Result <- result{Request: e.req, Response: r, Err: err}
}

// outcome takes the steps of the call: it prepares the request, sends it and waits for the outcome, makes the call
// again where that is allowed, and fetches and checks the output. It ends soon after the deadline at the latest, when
// the connection lets go of it.
func (c *Client) outcome(e *pendingCall) (*envelope.Response, error) {
	if r, err := c.prepare(e); r != nil || err != nil {
		return r, err
	}
	r, err := c.attempt(e, e.req)
	if r == nil && errors.Is(err, context.DeadlineExceeded) && e.cancelled() == nil {
		return c.unsent(e.req, e.Deadline, err), nil
	}
	if err == nil && r != nil {
		r, err = c.retry(e, r)
	}
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return c.unanswered(e.req, e.Deadline, c.inbox.Forbidden(c.subject(e.req.ToolID))), nil
	}
	return c.complete(e, e.advised(r)), nil
}

// await returns the result of the call. It panics if a function of the call has panicked.
func (c *Client) await(e *pendingCall) result {
	for cancelled := e.ctx.Done(); ; {
		select {
		case m := <-e.Result:
			if m.GivenUp {
				return c.givenUp(e)
			}
			select {
			case p := <-e.callbacks.panicked:
				panic(p)
			default:
			}
			return m
		case p := <-e.callbacks.panicked:
			panic(p)
		case <-cancelled:
			if cancelled = nil; e.cancelled() != nil {
				c.watch.Leave(&e.watchedCall, time.Now())
			}
		}
	}
}

// givenUp is the result of a call that ends without one: its caller went away, or the bus is silent.
func (c *Client) givenUp(e *pendingCall) result {
	req, deadline, barred := e.callbacks.end(), c.watch.Deadline(&e.watchedCall), c.IsPermissionDenied()
	switch {
	case e.cancelled() != nil:
		return result{Err: e.cancelled()}
	case req == nil:
		own := pendingCall{call: e.call, within: e.within} // the worker may be making the request of e
		own.requests(c, nil)
		if barred != nil {
			return result{Request: own.req, Response: c.excluded(own.req, deadline, barred, true)}
		}
		return result{Request: own.req, Response: c.unsent(own.req, deadline, context.DeadlineExceeded)}
	case barred != nil:
		return result{Request: req, Response: c.excluded(req, deadline, barred, false)}
	}
	return result{Request: req, Response: c.unanswered(req, deadline, nil)}
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

// pendingCall is a call that a worker makes, and its caller waits for.
type pendingCall struct {
	ctx       context.Context // of the caller; see cancelled
	call      Call
	started   time.Time
	within    time.Duration // that the caller has, from started on; 0 is for ever
	callbacks callbacks
	keyed     bool // the caller has chosen the key
	watchedCall

	// Of the call, once it is prepared.
	req         *envelope.Request
	fn          *function              // nil if it is not known
	described   bool                   // the tool is known
	keyRequired bool                   // the tool requires a key that the caller has chosen
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

// graced returns a context that ends [OwnGrace] after the deadline of the call, or when the caller cancels the call.
// It is for requests to the bus that the call needs, such as those for a large output.
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

// prepare makes the request of the call. A response says why the request cannot be sent.
func (c *Client) prepare(e *pendingCall) (*envelope.Response, error) {
	refusal, err := c.fill(e)
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
