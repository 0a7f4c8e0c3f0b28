package client

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/client/catalogue"
	"github.com/seed-018f16cc/toolbus/internal/client/exchange"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// pendingCall is a call that a worker makes, and its caller waits for.
type pendingCall struct {
	exchange.Call
	client  *Client
	call    Call
	started time.Time
	within  time.Duration // that the caller has, from started on; 0 is for ever
	keyed   bool          // the caller has chosen the key

	// Of the call, once it is prepared.
	req         *envelope.Request
	fn          *catalogue.Function    // nil if it is not known
	described   bool                   // the tool is known
	keyRequired bool                   // the tool requires a key that the caller has chosen
	pool        string                 // of the tool
	longest     time.Duration          // that the tool gives a call; 0 if it is not known
	unnamed     *envelope.Error        // the functions of the tool, if the call names none of several
	undescribed *envelope.Error        // why dispatchers do not describe the tool
	inexact     []jsonschema.Violation // what of the input is no I-JSON
}

// callWithDeadline makes the call and returns its outcome, or the library's own statement if there is none when the
// deadline and its grace have passed, or the error of ctx if that was cancelled before. It calls no function of the
// call after it has returned. keyed: the key of the call is not one that the client has made.
//
// A worker makes the call, because the caller must have its answer in time. A connection of nats.go holds its lock
// while it connects again, and a server that accepts connections and says nothing makes that last. The check of a
// large input takes time, too.
func (c *Client) callWithDeadline(ctx context.Context, call Call, keyed bool, started time.Time) exchange.Result {
	within, err := remaining(ctx, started)
	if err != nil {
		return exchange.Result{Err: err}
	}
	p := &pendingCall{client: c, call: call, started: started, within: within, keyed: keyed}
	p.call.OnAccepted, p.call.OnChunk = p.Guard(call.OnAccepted, call.OnChunk)
	c.calls.Add(ctx, &p.Call, started.Add(p.atMost(patience(call.Timeout))))
	defer c.calls.Remove(&p.Call)
	if c.IsPermissionDenied() != nil {
		return p.giveUp()
	}
	if !c.crew.Start(p.run) {
		return exchange.Result{Err: rpc.ErrClosed}
	}
	if r := c.calls.Await(&p.Call); !r.GivenUp {
		return r
	}
	return p.giveUp()
}

// run makes the call, beside its caller, and says what became of it.
func (p *pendingCall) run() {
	r, err := p.outcome()
	if r != nil && r.Error != nil {
		p.nameLimit(r, p.Deadline, p.longest)
	}
	p.Finish(exchange.Result{Request: p.req, Response: r, Err: err})
}

// outcome takes the steps of the call: it prepares the request, sends it and waits for the outcome, makes the call
// again where that is allowed, and fetches and checks the output. It ends soon after the deadline at the latest, when
// the connection lets go of it.
func (p *pendingCall) outcome() (*envelope.Response, error) {
	if r, err := p.prepare(); r != nil || err != nil {
		return r, err
	}
	r, err := p.attempt(p.req)
	if r == nil && errors.Is(err, context.DeadlineExceeded) && p.Cancelled() == nil {
		return p.silence(p.Deadline).unsentResponse(err), nil
	}
	if err == nil && r != nil {
		r, err = p.retry(r)
	}
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		asked := subjects.Call(p.client.Tenant, p.client.Actor, p.req.ToolID)
		return p.silence(p.Deadline).unansweredResponse(p.client.inbox.Forbidden(asked)), nil
	}
	return p.complete(p.advised(r)), nil
}

// giveUp returns the result of a call that ends without one: its caller went away, or the bus is silent.
func (p *pendingCall) giveUp() exchange.Result {
	req, deadline, barred := p.End(), p.client.calls.Deadline(&p.Call), p.client.IsPermissionDenied()
	if err := p.Cancelled(); err != nil {
		return exchange.Result{Err: err}
	}
	unsent := req == nil
	if unsent {
		own := pendingCall{client: p.client, call: p.call, within: p.within} // the worker may be making the request of p
		own.fill(nil)
		req = own.req
	}
	silence := p.client.silence(req, deadline)
	switch {
	case barred != nil:
		return exchange.Result{Request: req, Response: silence.excludedResponse(barred, unsent)}
	case unsent:
		return exchange.Result{Request: req, Response: silence.unsentResponse(context.DeadlineExceeded)}
	}
	r := silence.unansweredResponse(nil)
	p.nameLimit(r, deadline, 0) // the worker may be asking for the description of the tool
	return exchange.Result{Request: req, Response: r}
}

// remaining returns the time from started to the deadline of ctx, in whole milliseconds, or 0 if ctx has no deadline.
// The error is that of ctx, or [context.DeadlineExceeded] if less than 1 ms remains.
func remaining(ctx context.Context, started time.Time) (time.Duration, error) {
	deadline, ok := ctx.Deadline()
	if err := ctx.Err(); err != nil || !ok {
		return 0, err
	}
	if d := deadline.Sub(started).Truncate(time.Millisecond); d >= time.Millisecond {
		return d, nil
	}
	return 0, context.DeadlineExceeded
}

// patience is the time that an answer to a call with a timeout is waited for. A call whose timeout is out of range has
// no deadline, and is refused as soon as a dispatcher reads it.
func patience(timeout time.Duration) time.Duration {
	if timeout == 0 || !isValid(timeout) {
		return catalogue.MaxWait
	}
	return timeout
}

// atMost is a timeout, but no longer than the caller has.
func (p *pendingCall) atMost(timeout time.Duration) time.Duration {
	if p.within > 0 {
		return min(timeout, p.within)
	}
	return timeout
}

// prepare makes the request of the call. A response says why the request cannot be sent.
func (p *pendingCall) prepare() (*envelope.Response, error) {
	c := p.client
	refusal, err := p.preflight()
	switch {
	case refusal != nil:
		return refusedResponse(p.req, refusal), nil
	case c.IsSilent(err) && p.Cancelled() == nil:
		asked := subjects.Service(subjects.OpDescribe, c.Tenant, c.Actor)
		return p.silence(p.Deadline).unsentResponse(cmp.Or(c.inbox.Forbidden(asked), err)), nil
	case errors.Is(err, nats.ErrPermissionViolation):
		return refusedResponse(p.req, c.inbox.NotAllowed(err)), nil
	case err != nil:
		return nil, err
	}
	p.req.Constraints.DeadlineUnixMS -= time.Since(p.started).Milliseconds() // what the preparation took
	return nil, nil
}
