package client

import (
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Draft returns the request that [Client.Call] would send first for a call, and does not send it. It fills in what the
// call leaves open, like Call. The call must name a tool and a function.
func (c *Client) Draft(ctx context.Context, call Call) (*envelope.Request, error) {
	t, err := c.tool(ctx, call.as(), describeTime)
	if err != nil {
		return nil, err
	}
	call, keyed := c.withKey(call)
	e := pendingCall{call: call, keyed: keyed}
	e.req = c.request(e.call, t)
	e.fits(t)
	if refusal := e.sendable(); refusal != nil {
		return nil, &Refusal{refusal}
	}
	return e.req, nil
}
