package client

import (
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
	"github.com/seed-018f16cc/toolbus/streaming"
)

// unanswered returns the statement of the library about a call that got no answer. It is no outcome. why may be nil.
func (c *Client) unanswered(req *envelope.Request, deadline time.Time, why error) *envelope.Response {
	e := envelope.NewError(envelope.CodeTimeout,
		"no answer from the bus by the deadline; the call may still be running or have ended")
	if why != nil {
		e = e.WithCause(why.Error())
	}
	return c.silence(req, deadline, e.WithEffect(envelope.EffectUnknown), false)
}

// unsent returns the statement about a call that could not be sent by its deadline because of err.
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
		envelope.Metrics{DurationMS: max(0, req.Constraints.TimeoutMS+time.Since(deadline).Milliseconds())}).
		Correlated(req.Context.TraceID)
}

// unready returns the refusal of a request that cannot be sent, or whose input the payload store has no room for. Other
// errors are returned as they are.
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

// warned returns the response with a further warning.
func warned(r *envelope.Response, warning string) *envelope.Response {
	w := *r
	w.Warnings = append(slices.Clone(r.Warnings), warning)
	return &w
}

// refused returns the refusal of a request that cannot be sent. No dispatcher records it.
func (c *Client) refused(req *envelope.Request, e *envelope.Error) *envelope.Response {
	return envelope.Failure(req.CallID, e.WithEffect(envelope.EffectNone), envelope.Provenance{
		ToolID: req.ToolID, ToolVersion: req.ToolVersion, Final: true, NotStarted: true,
		PolicyApplied: []string{"client-preflight"},
	}, envelope.Metrics{}).Correlated(req.Context.TraceID)
}

// spoiled returns the statement of the library about a success whose output is missing or invalid. The effect has taken
// place.
func (c *Client) spoiled(r *envelope.Response, e *envelope.Error) *envelope.Response {
	p := r.Provenance
	p.Final = false
	return envelope.Failure(r.CallID, e.WithEffect(envelope.EffectApplied), p, r.Metrics).Correlated("")
}

// excluded returns the statement of the library about a call whose connection the server does not accept any more,
// because of why. It is no outcome: a request that was sent before may run.
func (c *Client) excluded(req *envelope.Request, deadline time.Time, why error, notStarted bool) *envelope.Response {
	e := exclusion(why).WithEffect(envelope.EffectUnknown)
	if notStarted {
		e = e.WithEffect(envelope.EffectNone)
	}
	return c.silence(req, deadline, e, notStarted)
}

// exclusion returns the error of the taxonomy for the reason why the server does not accept a connection.
func exclusion(why error) *envelope.Error {
	if refused, ok := errors.AsType[*tokensource.RenewalError](why); ok {
		return refused.Cause
	}
	return envelope.NewError(envelope.CodeToken, why.Error())
}
