package client

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/client/chunk"
	"github.com/seed-018f16cc/toolbus/internal/client/exchange"
	"github.com/seed-018f16cc/toolbus/streaming"
)

// attempt sends a request of the call and waits for its outcome. It calls the functions of the call meanwhile. It
// returns nil if there is no answer by the deadline, or if the call was given up.
func (p *pendingCall) attempt(req *envelope.Request) (*envelope.Response, error) {
	x, err := p.client.sender.Open(&p.Call, req, p.pool)
	if err != nil {
		return unsendableResponse(req, err)
	}
	defer x.Close()
	var stream *chunk.Stream // nil where the caller wants none
	bounded := p.Context()
	if p.call.OnChunk != nil {
		var cancel context.CancelFunc
		bounded, cancel = p.Graced()
		defer cancel()
		if stream, err = p.follow(bounded, req, x.Reply()); err != nil {
			return nil, err
		}
		defer stream.Stop()
	}
	if err := x.Start(); err != nil {
		return nil, cmp.Or(p.Cancelled(), err)
	}
	resp := p.wait(x, stream)
	switch {
	case resp == nil:
		return nil, p.Cancelled()
	case stream == nil:
		return resp, nil
	}
	return p.streamed(resp, stream.Finish(bounded, resp))
}

// follow follows the chunks of a request, whose answers come to reply.
func (p *pendingCall) follow(ctx context.Context, req *envelope.Request, reply string) (*chunk.Stream, error) {
	return chunk.Follow(ctx, chunk.Options{
		Inbox: p.client.inbox, Key: p.client.key(req), CallID: req.CallID, Reply: reply, Bound: p.client.bound,
		Timeout: time.Duration(req.Constraints.TimeoutMS) * time.Millisecond, OnChunk: p.call.OnChunk,
	})
}

// wait returns the outcome, and calls the functions of the call meanwhile. It returns nil if there is no outcome soon
// after the deadline, or if the caller cancels the call.
func (p *pendingCall) wait(x *exchange.Exchange, stream *chunk.Stream) *envelope.Response {
	told, cancelled := false, p.Context().Done()
	accepted := func(a *envelope.Accepted) {
		if !told && p.call.OnAccepted != nil {
			p.call.OnAccepted(*a)
		}
		if told = true; stream != nil {
			stream.Accepted(a)
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
		case <-stream.Hints():
			stream.Hinted()
		case <-x.Missed:
			if stream != nil {
				stream.Reconnected()
			}
		case <-cancelled:
			if cancelled = nil; p.Cancelled() != nil {
				return nil
			}
		}
	}
}

// streamed returns the answer to a call with the outcome r, whose chunks were delivered except for err. A success whose
// chunks are not complete becomes a statement of the library. A stored success outlives its chunks and stays a success.
// Other outcomes do not depend on chunks. An error of OnChunk is returned as it is.
func (p *pendingCall) streamed(r *envelope.Response, err error) (*envelope.Response, error) {
	expired := errors.Is(err, streaming.ErrExpired)
	late := errors.Is(err, context.DeadlineExceeded) && p.Cancelled() == nil
	switch {
	case expired && r.Status == envelope.Success && r.Provenance.Replayed:
		return warnedResponse(r, "the chunks of this stored outcome have expired or may not be read: "+err.Error()), nil
	case late || expired || errors.Is(err, streaming.ErrDigest) || errors.Is(err, streaming.ErrCorrupt):
		if r.Status == envelope.Success {
			r = spoiledResponse(r, envelope.NewError(payloadCode(err), "").WithCause(err.Error()))
		}
		return r, nil
	}
	return r, err
}
