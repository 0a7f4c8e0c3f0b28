package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/streaming"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// attempts calls again until an outcome stands that may not be retried, or the deadline leaves no room. r is that
// of the first attempt.
func (c *Client) attempts(e *pendingCall, r *envelope.Response) (*envelope.Response, error) {
	for n := 1; r.Status != envelope.Success; n++ {
		pause, more := c.again(e, n, r)
		if !more || time.Until(e.Deadline) <= pause || !timer.Sleep(e.ctx, pause) {
			break
		}
		left := time.Until(e.Deadline).Milliseconds()
		if left < 1 {
			break
		}
		req := *e.req
		req.CallID, req.Constraints.TimeoutMS = freshID(), left
		next, err := c.once(e, &req)
		if next == nil && errors.Is(err, context.DeadlineExceeded) && e.cancelled() == nil {
			break
		}
		if err != nil {
			return next, err
		}
		r = next
	}
	return r, nil
}

// exchange is one request and the answers to it.
type exchange struct {
	sentRequest
	of     *pendingCall
	msg    nats.Msg
	values [2]string // of the headers that are always the same
}

// hear takes an answer.
func (c *Client) hear(x *exchange, msg *nats.Msg) {
	contentType := msg.Header.Get(subjects.HeaderContentType)
	switch msg.Header.Get(subjects.HeaderKind) {
	case envelope.KindAccepted:
		if a, bad := envelope.DecodeAccepted(contentType, msg.Data); bad == nil {
			c.watch.Accepted(&x.sentRequest, a, time.Now())
		}
	case envelope.KindOutcome:
		if r, bad := envelope.DecodeResponse(contentType, msg.Data); bad == nil {
			c.watch.Answered(&x.sentRequest, sane(r))
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

// open makes an exchange of a request. Its outcome comes to to; shut it when done.
func (c *Client) open(e *pendingCall, req *envelope.Request, to chan update) (*exchange, error) {
	x := &exchange{of: e, values: [...]string{envelope.ContentJSON, "1"}}
	x.sentRequest = sentRequest{Of: &e.watchedCall, Body: req, To: to, Send: func() { c.resend(x) }, Renews: c.Renews}
	if err := c.message(x); err != nil {
		return nil, err
	}
	if e.call.OnAccepted == nil {
		x.msg.Header[subjects.HeaderPatient] = x.values[1:2:2]
	}
	x.msg.Reply = c.inbox.Open(func(answer *nats.Msg) { c.hear(x, answer) })
	x.Reply = x.msg.Reply
	c.inbox.Vouch(x.msg.Header)
	return x, nil
}

// start sends the request for the first time. The same call id always gets the same outcome, so it may be sent again:
// the watcher does so until the outcome is here, or the deadline and its grace have passed.
func (c *Client) start(x *exchange) error {
	if !x.of.show.begin(x.Body) || !c.watch.Launch(&x.sentRequest, time.Now()) {
		return errStopped
	}
	if err := c.publish(x); err != nil && c.inbox.NC.IsClosed() {
		return err
	}
	return nil
}

// vouched returns the message with the token that is good now: copies are sent for as long as a call takes, while
// another goroutine may still write one.
func (c *Client) vouched(msg *nats.Msg) *nats.Msg {
	if c.Token == nil || msg.Header.Get(subjects.HeaderToken) == c.Token() {
		return msg
	}
	fresh := *msg
	fresh.Header = maps.Clone(msg.Header)
	c.inbox.Vouch(fresh.Header)
	return &fresh
}

// publish sends a copy of the request, for as long as the connection takes.
func (c *Client) publish(x *exchange) error {
	err := c.inbox.NC.PublishMsg(c.vouched(&x.msg))
	c.watch.Sent(&x.sentRequest, err)
	return err
}

// resend sends a copy beside the watcher, if the call has not ended meanwhile.
func (c *Client) resend(x *exchange) {
	c.crew.Start(func() {
		if x.of.show.begin(x.Body) {
			_ = c.publish(x) // the watcher knows
		}
	})
}

// shut ends the exchange of a call, whether it was started or not.
func (c *Client) shut(x *exchange) {
	c.watch.Drop(&x.of.watchedCall)
	c.inbox.Drop(x.msg.Reply)
}

// once makes one exchange, with the functions of the call.
func (c *Client) once(e *pendingCall, req *envelope.Request) (*envelope.Response, error) {
	x, err := c.open(e, req, make(chan update, 1))
	if err != nil {
		return c.unready(req, err)
	}
	defer c.shut(x)
	x.Acceptances, x.Missed = make(chan *envelope.Accepted, 1), make(chan struct{}, 1)
	var stream *chunkStream // nil where the caller wants none
	bounded := e.ctx
	if e.call.OnChunk != nil {
		var cancel context.CancelFunc
		bounded, cancel = e.graced()
		defer cancel()
		if stream, err = c.follow(bounded, e, req, x.Reply); err != nil {
			return nil, err
		}
		defer stream.stop()
	}
	if err := c.start(x); err != nil {
		return nil, err
	}
	resp := e.wait(x, stream)
	if resp == nil {
		return c.unanswered(req, e.Deadline, c.inbox.Forbidden(c.subject(req.ToolID))), e.cancelled()
	}
	if stream == nil {
		return resp, nil
	}
	return c.streamed(e, resp, stream.finish(bounded, resp))
}

// warned returns the response with a further warning.
func warned(r *envelope.Response, warning string) *envelope.Response {
	w := *r
	w.Warnings = append(slices.Clone(r.Warnings), warning)
	return &w
}

// wait returns the outcome, and serves the functions of the call meanwhile; nil when there is none soon after the
// deadline, or the caller goes away.
func (e *pendingCall) wait(x *exchange, stream *chunkStream) *envelope.Response {
	told, cancelled := false, e.ctx.Done()
	accepted := func(a *envelope.Accepted) {
		if !told && e.call.OnAccepted != nil {
			e.call.OnAccepted(*a)
		}
		if told = true; stream != nil {
			stream.accepted(a)
		}
	}
	for {
		select {
		case m := <-x.To:
			select {
			case a := <-x.Acceptances: // it came before the outcome
				accepted(a)
			default:
			}
			return m.Response
		case a := <-x.Acceptances:
			accepted(a)
		case <-stream.hints():
			stream.hinted()
		case <-x.Missed:
			if stream != nil {
				stream.reconnected()
			}
		case <-cancelled:
			if cancelled = nil; e.cancelled() != nil {
				return nil
			}
		}
	}
}

// unanswered is the statement the library makes when the bus is silent. It is no outcome. why may be nil.
func (c *Client) unanswered(req *envelope.Request, deadline time.Time, why error) *envelope.Response {
	e := envelope.NewError(envelope.CodeTimeout,
		"no answer from the bus by the deadline; the call may still be running or have ended")
	if why != nil {
		e = e.WithCause(why.Error())
	}
	return c.silence(req, deadline, e.WithEffect(envelope.EffectUnknown), false)
}

// unsent is that statement about a call that could not be sent by its deadline, and why.
func (c *Client) unsent(req *envelope.Request, deadline time.Time, err error) *envelope.Response {
	e := envelope.NewError(envelope.CodeTimeout, "no answer from the bus by the deadline; the call was not sent")
	if errors.Is(err, nats.ErrPermissionViolation) {
		e = envelope.NewError(envelope.CodeExpired, "the token has expired, and was not renewed by the deadline of the call")
	}
	if refused, ok := errors.AsType[*Refusal](err); ok {
		e = refused.Reason
	}
	return c.silence(req, deadline, e.WithEffect(envelope.EffectNone).WithCause(err.Error()), true)
}

func (c *Client) silence(
	req *envelope.Request, deadline time.Time, e *envelope.Error, notStarted bool,
) *envelope.Response {
	if why := c.Crowded(); why != nil {
		e = e.WithCause(why.Error()).WithFix("call again with the same key once there is room: " + bus.ConnectHint(why))
	}
	p := envelope.Provenance{ToolID: req.ToolID, ToolVersion: req.ToolVersion, NotStarted: notStarted}
	return envelope.Failure(req.CallID, e, p,
		envelope.Metrics{DurationMS: max(0, req.Constraints.TimeoutMS+time.Since(deadline).Milliseconds())})
}

// message makes the message of the request; a large input goes to the payload store first.
func (c *Client) message(x *exchange) (err error) {
	sent, msg := *x.Body, &x.msg
	msg.Subject, msg.Header = c.subject(sent.ToolID), nats.Header{subjects.HeaderContentType: x.values[0:1:1]}
	if len(sent.Input) > envelope.MaxInline {
		ref, err := c.store(x.of, sent.Input)
		if err != nil {
			return err
		}
		msg.Header.Set(subjects.HeaderInputRef, ref.String())
		sent.Input = []byte("null")
	}
	if msg.Data, err = envelope.AppendRequest(nil, &sent); err != nil { // a text of it is no UTF-8
		sent.Input = []byte("null")
		reason := cmp.Or(sent.Check(), envelope.NewError(envelope.CodeMalformed, ""))
		return unsendable{reason.WithCause(err.Error())}
	}
	if most := c.nc.MaxPayload(); most > 0 && int64(msg.Size()) > most {
		return unsendable{envelope.NewError(envelope.CodeLimit,
			fmt.Sprintf("the request is %d bytes, and the server takes at most %d", msg.Size(), most))}
	}
	return nil
}

// unsendable is the error of a request that cannot be sent.
type unsendable struct{ reason *envelope.Error }

// Error implements error.
func (u unsendable) Error() string { return u.reason.String() }

func (c *Client) store(e *pendingCall, data []byte) (envelope.PayloadRef, error) {
	if c.Payloads == nil {
		return envelope.PayloadRef{}, fmt.Errorf("%w: an input of more than %d bytes goes through the payload store, and "+
			"this client has none: set Options.Payloads",
			streaming.ErrTooLarge, envelope.MaxInline)
	}
	bounded, cancel := e.graced()
	defer cancel()
	return c.Payloads.PutNow(bounded, c.owner().On(e.pool), data)
}

// unready returns the refusal of a request that could not be made ready because it cannot be sent, or because its input
// found no room.
func (c *Client) unready(req *envelope.Request, err error) (*envelope.Response, error) {
	if u, ok := errors.AsType[unsendable](err); ok {
		return c.refused(req, u.reason), nil
	}
	if !errors.Is(err, streaming.ErrFull) {
		return nil, err
	}
	e := envelope.NewError(envelope.CodeStoreFull, "the payload store has no room for the input").
		WithFix("call again later, or with an input of at most 256 KiB; the operator must enlarge the stream PAYLOADS")
	return c.refused(req, e.WithCause(err.Error())), nil
}
