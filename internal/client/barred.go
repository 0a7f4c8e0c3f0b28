package client

import (
	"context"
	"errors"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
)

// excluded is the statement of the library about a call whose connection the server does not accept any more, for the
// reason why. It is no outcome: a request that was sent before may run.
func (c *Client) excluded(req *envelope.Request, deadline time.Time, why error, notStarted bool) *envelope.Response {
	e := exclusion(why).WithEffect(envelope.EffectUnknown)
	if notStarted {
		e = e.WithEffect(envelope.EffectNone)
	}
	return c.silence(req, deadline, e, notStarted)
}

// exclusion is the reason why the server does not accept a connection, in terms of the taxonomy.
func exclusion(why error) *envelope.Error {
	if refused, ok := errors.AsType[*tokensource.RenewalError](why); ok {
		return refused.Cause
	}
	return envelope.NewError(envelope.CodeToken, why.Error())
}

// whileAccepted returns a context that ends when the server refuses the connection, too. Call stop when done.
func (c *Client) whileAccepted(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	forget := c.OnRefused(cancel)
	if c.IsPermissionDenied() != nil {
		cancel()
	}
	return ctx, func() { forget(); cancel() }
}
