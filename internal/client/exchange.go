package client

import (
	"cmp"
	"context"
	"maps"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// exchange is one request and the answers to it.
type exchange struct {
	sentRequest
	of     *pendingCall
	msg    nats.Msg
	values [2]string // of the headers that are always the same
}

// hear handles an answer. Answers that cannot be decoded are dropped: the request is sent again.
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

// sane returns r with retry_after_ms in the range that this library allows. Another build may have written another
// value.
func sane(r *envelope.Response) *envelope.Response {
	if r.Error != nil {
		r.Error.Details.RetryAfterMS = min(max(0, r.Error.Details.RetryAfterMS), envelope.MaxRetryAfter.Milliseconds())
	}
	return r
}

// open makes an exchange of a request. Shut it when done.
func (c *Client) open(e *pendingCall, req *envelope.Request) (*exchange, error) {
	x := &exchange{of: e, values: [...]string{envelope.ContentJSON, "1"}}
	x.sentRequest = sentRequest{Of: &e.watchedCall, Body: req, Answer: make(chan *envelope.Response, 1),
		Send: func() { c.resend(x) }, Renews: c.Renews}
	if e.call.OnAccepted != nil || e.call.OnChunk != nil {
		x.Acceptances, x.Missed = make(chan *envelope.Accepted, 1), make(chan struct{}, 1)
	}
	if err := c.message(x); err != nil {
		return nil, err
	}
	if e.call.OnAccepted == nil {
		x.msg.Header[subjects.HeaderPatient] = x.values[1:2:2]
	}
	x.msg.Reply = c.inbox.Open(func(answer *nats.Msg) { c.hear(x, answer) })
	c.inbox.Vouch(x.msg.Header)
	return x, nil
}

// start sends the request for the first time. The same call id always gets the same outcome, so it may be sent again:
// the watcher does so until the outcome is here, or the deadline and its grace have passed.
func (c *Client) start(x *exchange) error {
	if !x.of.callbacks.begin(x.Body) || !c.watch.Launch(&x.sentRequest, time.Now()) {
		return errStopped
	}
	if err := c.publish(x); err != nil && c.inbox.NC.IsClosed() {
		return err
	}
	return nil
}

// vouched returns msg with the current token. It copies a message with an older token, because another goroutine may
// still be writing that message.
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

// resend sends a copy in a worker, unless the call has ended by then. The watcher never waits for the connection.
func (c *Client) resend(x *exchange) {
	c.crew.Start(func() {
		if x.of.callbacks.begin(x.Body) {
			_ = c.publish(x) // the watcher knows
		}
	})
}

// shut ends the exchange of a call, whether it was started or not.
func (c *Client) shut(x *exchange) {
	c.watch.Drop(&x.of.watchedCall)
	c.inbox.Drop(x.msg.Reply)
}

// attempt sends a request of the call and waits for its outcome. It calls the functions of the call meanwhile. It
// returns nil if there is no answer by the deadline, or if the call was given up.
func (c *Client) attempt(e *pendingCall, req *envelope.Request) (*envelope.Response, error) {
	x, err := c.open(e, req)
	if err != nil {
		return c.unready(req, err)
	}
	defer c.shut(x)
	var stream *chunkStream // nil where the caller wants none
	bounded := e.ctx
	if e.call.OnChunk != nil {
		var cancel context.CancelFunc
		bounded, cancel = e.graced()
		defer cancel()
		if stream, err = c.follow(bounded, e, req, x.msg.Reply); err != nil {
			return nil, err
		}
		defer stream.stop()
	}
	if err := c.start(x); err != nil {
		return nil, cmp.Or(e.cancelled(), err)
	}
	resp := e.wait(x, stream)
	switch {
	case resp == nil:
		return nil, e.cancelled()
	case stream == nil:
		return resp, nil
	}
	return c.streamed(e, resp, stream.finish(bounded, resp))
}

// wait returns the outcome, and calls the functions of the call meanwhile. It returns nil if there is no outcome soon
// after the deadline, or if the caller cancels the call.
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
		case r := <-x.Answer:
			select {
			case a := <-x.Acceptances: // it came before the outcome
				accepted(a)
			default:
			}
			return r
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
