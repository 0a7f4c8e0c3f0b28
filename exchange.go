package toolbus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/wait"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// attempts calls until an outcome stands that may not be retried, or the deadline leaves no room.
func (c *Client) attempts(e errand) (*envelope.Response, error) {
	var before *envelope.Response // of the attempt before
	for n := 1; ; n++ {
		resp, err := c.once(e)
		if resp == nil && errors.Is(err, context.DeadlineExceeded) && e.ctx.Err() == nil {
			return cmp.Or(before, c.unsent(e.req, e.deadline, err)), nil
		}
		before = resp
		if err != nil || resp.Status == envelope.Success {
			return resp, err
		}
		policy := policyOf(e.call)
		if n >= policy.MaxAttempts || !retryable(resp, policy) {
			return resp, nil
		}
		if pause := backoff(policy, n, resp); time.Until(e.deadline) <= pause || !wait.For(e.ctx, pause) {
			return resp, nil
		}
		left := time.Until(e.deadline).Milliseconds()
		if left < 1 {
			return resp, nil
		}
		req := *e.req
		req.CallID, req.Constraints.TimeoutMS = uuid.NewString(), left
		e.req = &req
	}
}

// exchange is one request and the answers to it.
type exchange struct {
	accepted chan *envelope.Accepted // first one only
	outcome  chan *envelope.Response // the first few
}

// hear takes an answer.
func (x *exchange) hear(msg *nats.Msg) {
	contentType := msg.Header.Get(subjects.HeaderContentType)
	switch msg.Header.Get(subjects.HeaderKind) {
	case question.KindAccepted:
		if a, bad := envelope.DecodeAccepted(contentType, msg.Data); bad == nil {
			offer(x.accepted, a)
		}
	case question.KindOutcome:
		if r, bad := envelope.DecodeResponse(contentType, msg.Data); bad == nil {
			offer(x.outcome, sane(r))
		}
	}
}

// sane returns a response with a back-off hint that can be followed, whatever build of the bus it is from.
func sane(r *envelope.Response) *envelope.Response {
	if r.Error != nil {
		r.Error.Details.RetryAfterMS = min(max(0, r.Error.Details.RetryAfterMS), envelope.MaxRetryAfter.Milliseconds())
	}
	return r
}

// offer puts v into c unless something is in it already.
func offer[T any](c chan T, v T) {
	select {
	case c <- v:
	default:
	}
}

func (c *Client) reconnected() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resend
}

// When an unanswered request is sent again: soon while it is not even accepted, now and then
// afterwards (an outcome may have been lost on its way), and right after the deadline.
const (
	firstResend   = 400 * time.Millisecond
	acceptedAgain = 2 * time.Second
	afterDeadline = 25 * time.Millisecond
)

// once sends the request, again and again if need be, until its outcome is here or the deadline
// and its grace have passed. The same call id always gets the same outcome, so sending again is safe.
func (c *Client) once(e errand) (*envelope.Response, error) {
	bounded, cancel := context.WithDeadline(e.ctx, e.deadline.Add(ownGrace))
	defer cancel()
	msg, err := c.message(bounded, e.req)
	if errors.Is(err, streaming.ErrFull) {
		full := envelope.NewError(envelope.CodeStoreFull, "the payload store has no room for the input").
			WithFix("call again later, or with an input of at most 256 KiB; the operator must enlarge the stream PAYLOADS")
		return c.refused(e.req, full.WithCause(err.Error())), nil
	}
	if err != nil {
		return nil, err
	}
	if e.call.Accepted == nil {
		msg.Header.Set(subjects.HeaderPatient, "1")
	}
	x := &exchange{accepted: make(chan *envelope.Accepted, 1), outcome: make(chan *envelope.Response, 8)}
	msg.Reply = c.inbox.Open(x.hear)
	defer c.inbox.Drop(msg.Reply)
	var stream *chunkStream // nil where the caller wants none
	if e.call.Chunk != nil {
		if stream, err = c.follow(e.ctx, e.call, e.req); err != nil {
			return nil, err
		}
		defer stream.stop()
	}
	if !e.show.begin(e.req) {
		return nil, errStopped
	}
	if err = c.inbox.NC.PublishMsg(msg); err != nil && c.inbox.NC.IsClosed() {
		return nil, err
	}
	var sent copies
	sent.add(err)
	resp := c.wait(bounded, e.call, x, stream, msg, sent, e.deadline)
	if resp == nil {
		return c.unanswered(e.req, e.deadline, c.inbox.Forbidden(c.subject(e.req.ToolID))), e.ctx.Err()
	}
	if stream == nil {
		return resp, nil
	}
	return c.streamed(e.ctx, resp, stream.finish(bounded, resp))
}

// warned returns the response with a further warning.
func warned(r *envelope.Response, warning string) *envelope.Response {
	w := *r
	w.Warnings = append(slices.Clone(r.Warnings), warning)
	return &w
}

// wait returns the outcome; nil when there is none before ctx ends, which is soon after the deadline.
func (c *Client) wait(ctx context.Context, call Call, x *exchange, stream *chunkStream, msg *nats.Msg, sent copies,
	deadline time.Time) *envelope.Response {
	again := time.NewTimer(nextResend(deadline, 0, false))
	defer again.Stop()
	reconnected := c.reconnected()
	accepted := false
	for n := 0; ; {
		select {
		case r := <-x.outcome:
			switch {
			case (accepted || len(x.accepted) > 0) && r.Provenance.Attempt == 0:
				// A copy was refused. What was accepted has an outcome of its own.
			case turnedAway(r) && !sent.allTurnedAway(r):
			default:
				return r
			}
		case a := <-x.accepted:
			if !accepted && call.Accepted != nil {
				call.Accepted(*a)
			}
			accepted = true
			if stream != nil {
				stream.accepted(a)
			}
			again.Reset(nextResend(deadline, n, accepted))
		case <-reconnected:
			reconnected = c.reconnected()
			if stream != nil {
				stream.reconnected()
			}
			sent.add(c.inbox.NC.PublishMsg(msg))
		case <-again.C:
			n++
			sent.add(c.inbox.NC.PublishMsg(msg))
			again.Reset(nextResend(deadline, n, accepted))
		case <-ctx.Done():
			return nil
		}
	}
}

// turnedAway says whether r is no outcome but a refusal by a dispatcher that another one may contradict, as one
// whose record lags, or whose clock is ahead.
func turnedAway(r *envelope.Response) bool { return r.Provenance.Attempt == 0 && !r.Provenance.Final }

// copies counts how often a request was sent. Every copy may meet another dispatcher, so one may
// be turned away and another be taken in: only when all were turned away, the call was.
type copies struct {
	sent  int
	heard []heard // refusals
}

// heard tells a refusal from its double: the id of its record, and which one it is where the record is of many.
type heard struct {
	id      string
	counted uint64
}

// add counts a copy, unless it could not be sent; the timer sends another one then.
func (c *copies) add(err error) {
	if err == nil {
		c.sent++
	}
}

// allTurnedAway counts the refusal r.
func (c *copies) allTurnedAway(r *envelope.Response) bool {
	h := heard{r.Provenance.AuditEventID, r.Provenance.Counted}
	if h.id == "" || !slices.Contains(c.heard, h) { // without one it could not be recorded
		c.heard = append(c.heard, h)
	}
	return len(c.heard) >= c.sent
}

// nextResend says how long to wait before the request is sent for the n+1st further time.
func nextResend(deadline time.Time, n int, accepted bool) time.Duration {
	wait := min(firstResend<<min(n, 3), acceptedAgain)
	if accepted {
		wait = acceptedAgain
	}
	if left := time.Until(deadline) + afterDeadline; wait > left {
		wait = max(left, afterDeadline)
	}
	return wait
}

// unanswered is the statement the library makes when the bus is silent. It is no outcome. why may be nil.
func (c *Client) unanswered(req *envelope.Request, deadline time.Time, why error) *envelope.Response {
	e := envelope.NewError(envelope.CodeTimeout,
		"no answer from the bus by the deadline; the call may still be running or have ended")
	if why != nil {
		e = e.WithCause(why.Error())
	}
	return c.silence(req, deadline, e.WithEffect(envelope.EffectUnknown))
}

// unsent is that statement about a call that could not be sent by its deadline, and why.
func (c *Client) unsent(req *envelope.Request, deadline time.Time, err error) *envelope.Response {
	return c.silence(req, deadline, envelope.NewError(envelope.CodeTimeout,
		"no answer from the bus by the deadline; the call was not sent").
		WithEffect(envelope.EffectNone).WithCause(err.Error()))
}

func (c *Client) silence(req *envelope.Request, deadline time.Time, e *envelope.Error) *envelope.Response {
	p := envelope.Provenance{ToolID: req.ToolID, ToolVersion: req.ToolVersion, Final: false}
	return envelope.Failure(req.CallID, e, p,
		envelope.Metrics{DurationMS: req.Constraints.TimeoutMS + time.Since(deadline).Milliseconds()})
}

// message encodes the request; a large input goes to the payload store first.
func (c *Client) message(ctx context.Context, req *envelope.Request) (*nats.Msg, error) {
	msg := &nats.Msg{Subject: c.subject(req.ToolID),
		Header: nats.Header{subjects.HeaderContentType: {envelope.ContentJSON}}}
	sent := *req
	if len(req.Input) > envelope.MaxInline {
		if c.Payloads == nil {
			return nil, fmt.Errorf("%w: an input of more than %d bytes goes through the payload store, and this client has "+
				"none: set ClientOptions.Payloads", streaming.ErrTooLarge, envelope.MaxInline)
		}
		ref, err := c.Payloads.PutNow(ctx, req.Input)
		if err != nil {
			return nil, err
		}
		msg.Header.Set(subjects.HeaderInputRef, ref.String())
		sent.Input = []byte("null")
	}
	data, err := envelope.AppendRequest(nil, &sent) // preflight has checked its input
	msg.Data = data
	return msg, err
}
