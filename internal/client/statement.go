package client

import (
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth/tokensource"
	"github.com/seed-018f16cc/toolbus/internal/client/exchange"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/rpc"
	"github.com/seed-018f16cc/toolbus/streaming"
)

// silence is a call whose outcome the client does not know. Its methods return the statements of the library about it,
// which are no outcomes.
type silence struct {
	req      *envelope.Request
	ref      string // of the call; "" while it has no key
	deadline time.Time
	crowded  error // why the server does not accept the connection for now; may be nil
}

func (c *Client) silence(req *envelope.Request, deadline time.Time) silence {
	ref := ""
	if req.Constraints.IdempotencyKey != "" {
		ref = c.key(req).Ref()
	}
	return silence{req, ref, deadline, c.Crowded()}
}

func (p *pendingCall) silence(deadline time.Time) silence { return p.client.silence(p.req, deadline) }

// unansweredResponse is for a call that got no answer. why may be nil.
func (s silence) unansweredResponse(why error) *envelope.Response {
	e := envelope.NewError(envelope.CodeTimeout,
		"no answer from the bus by the deadline; the call may still be running or have ended").
		WithFix(s.fixUnanswered())
	if why != nil {
		e = e.WithCause(why.Error())
	}
	return s.response(e.WithEffect(envelope.EffectUnknown), false)
}

// fixUnanswered is the fix for a call that got no answer.
func (s silence) fixUnanswered() string {
	fix := "call again with the same key, and with " + largerTimeout
	if s.ref != "" {
		fix += ", or ask for the outcome with `toolbus result " + s.ref + "`"
	}
	return fix + "; if it is not answered again, `toolbus doctor` says what does not work"
}

// unsentResponse is for a call that could not be sent by its deadline because of err.
func (s silence) unsentResponse(err error) *envelope.Response {
	e := envelope.NewError(envelope.CodeTimeout, "no answer from the bus by the deadline; the call was not sent")
	if errors.Is(err, rpc.ErrNoDispatcher) {
		e = e.WithFix("call again with the same key, once a dispatcher admits calls")
	}
	if errors.Is(err, nats.ErrPermissionViolation) {
		e = envelope.NewError(envelope.CodeExpired, "the token has expired, and was not renewed by the deadline of the call")
	}
	if refused, ok := errors.AsType[*operation.Refusal](err); ok {
		e = refused.Reason
	}
	return s.response(e.WithEffect(envelope.EffectNone).WithCause(err.Error()), true)
}

// excludedResponse is for a call whose connection the server does not accept any more, because of why. Unless unsent, a
// request that was sent before may run.
func (s silence) excludedResponse(why error, unsent bool) *envelope.Response {
	effect := envelope.EffectUnknown
	if unsent {
		effect = envelope.EffectNone
	}
	return s.response(exclusion(why).WithEffect(effect), unsent)
}

// exclusion returns the error of the taxonomy for the reason why the server does not accept a connection.
func exclusion(why error) *envelope.Error {
	if refused, ok := errors.AsType[*tokensource.RenewalError](why); ok {
		return refused.Cause
	}
	return envelope.NewError(envelope.CodeToken, why.Error())
}

func (s silence) response(e *envelope.Error, notStarted bool) *envelope.Response {
	if s.crowded != nil {
		e = e.WithCause(s.crowded.Error()).
			WithFix("call again with the same key once there is room: " + bus.ConnectHint(s.crowded))
	}
	p := envelope.Provenance{ToolID: s.req.ToolID, ToolVersion: s.req.ToolVersion, NotStarted: notStarted}
	return envelope.Failure(s.req.CallID, e, p,
		envelope.Metrics{DurationMS: max(0, s.req.Constraints.TimeoutMS+time.Since(s.deadline).Milliseconds())}).
		Correlated(s.req.Context.TraceID)
}

// unsendableResponse returns the refusal of a request that cannot be sent, or whose input the payload store has no room
// for. Other errors are returned as they are.
func unsendableResponse(req *envelope.Request, err error) (*envelope.Response, error) {
	if u, ok := errors.AsType[exchange.Unsendable](err); ok {
		return refusedResponse(req, u.Reason), nil
	}
	if !errors.Is(err, streaming.ErrFull) {
		return nil, err
	}
	e := envelope.NewError(envelope.CodeStoreFull, "the payload store has no room for the input").
		WithFix("call again later, or with an input of at most 256 KiB; the operator must enlarge the stream PAYLOADS")
	return refusedResponse(req, e.WithCause(err.Error())), nil
}

// warnedResponse returns the response with a further warning.
func warnedResponse(r *envelope.Response, warning string) *envelope.Response {
	w := *r
	w.Warnings = append(slices.Clone(r.Warnings), warning)
	return &w
}

// refusedResponse returns the refusal of a request that cannot be sent. No dispatcher records it.
func refusedResponse(req *envelope.Request, e *envelope.Error) *envelope.Response {
	return envelope.Failure(req.CallID, e.WithEffect(envelope.EffectNone), envelope.Provenance{
		ToolID: req.ToolID, ToolVersion: req.ToolVersion, Final: true, NotStarted: true,
		PolicyApplied: []string{"client-preflight"},
	}, envelope.Metrics{}).Correlated(req.Context.TraceID)
}

// spoiledResponse returns the statement of the library about a success whose output is missing or invalid. The effect
// has taken place.
func spoiledResponse(r *envelope.Response, e *envelope.Error) *envelope.Response {
	p := r.Provenance
	p.Final = false
	return envelope.Failure(r.CallID, e.WithEffect(envelope.EffectApplied), p, r.Metrics).Correlated("")
}
