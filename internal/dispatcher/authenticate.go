package dispatcher

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// credential checks the token of a request, if this dispatcher has a verifier: the token must belong to the actor of
// the subject, have the role agent, and allow the scopes, run and lane of the request.
func (d *Dispatcher) credential(c *candidate) *envelope.Error {
	if d.Tokens == nil || c.principal != nil {
		return nil
	}
	from, to := c.in.From, c.req.Context
	p, refusal := auth.AuthenticateCall(d.Tokens, d.Now(), subjects.Token(from.Tenant), subjects.Token(from.Actor),
		c.in.Token)
	switch {
	case refusal != nil:
		return refusal
	case p.Role != auth.Agent:
		return auth.ForbiddenForRole(p.Role, "calls")
	case d.misdirected(p, c.in.Reply):
		return elsewhere(p)
	case p.Run != "" && to.RunID != "" && to.RunID != p.Run:
		return envelope.NewError(envelope.CodeScope, fmt.Sprintf("the token is for run %.100q alone", p.Run))
	case p.Lane != "" && to.LaneID != "" && to.LaneID != p.Lane:
		return envelope.NewError(envelope.CodeScope, fmt.Sprintf("the token is for lane %.100q alone", p.Lane))
	}
	for _, s := range to.Scopes {
		if !p.Has(s) {
			return envelope.NewError(envelope.CodeScope, fmt.Sprintf("context.scopes claims %.100q, and the token does not", s))
		}
	}
	c.principal = p
	return nil
}

// scopes checks that the caller has the scopes that the tool requires: in its token, or, without tokens, in
// context.scopes of the request.
func (d *Dispatcher) scopes(_ context.Context, c *candidate) *envelope.Error {
	for _, s := range c.m.Security.RequiredScopes {
		has := slices.Contains(c.req.Context.Scopes, s)
		if c.principal != nil {
			has = c.principal.Has(s)
		}
		if !has {
			return envelope.NewError(envelope.CodeScope, fmt.Sprintf("tool %q requires the scope %.100q", c.m.ToolID, s))
		}
	}
	return nil
}

// Authenticate checks the token of a request for the service operation op, and whether its role may send it. It records
// a refusal before it returns.
func (d *Dispatcher) Authenticate(ctx context.Context, op string, from call.Sender,
	c call.Credential) (*auth.Principal, *envelope.Error) {
	p, refusal := auth.AuthenticateRequest(d.Tokens, d.Now(), op, from, c)
	if refusal == nil && p != nil && d.misdirected(p, c.Reply) {
		refusal = elsewhere(p)
	}
	if refusal != nil {
		return nil, d.RecordDenied(ctx, from, refusal)
	}
	return p, nil
}

// RecordDenied records the refusal of a service request, and returns the error to answer with: refusal, or R-CAP-AUDIT
// if it could not be recorded.
func (d *Dispatcher) RecordDenied(ctx context.Context, from call.Sender, refusal *envelope.Error) *envelope.Error {
	r := audit.Refusal{
		In: &call.IncomingRequest{From: Named(from)}, Error: refusal, Step: audit.StepIdentity, Rule: audit.RuleService,
	}
	if _, _, err := d.Records.Denied(ctx, r); err != nil {
		return envelope.NewError(envelope.CodeAuditLag, "").WithCause(err.Error())
	}
	return refusal
}

// Named returns the sender with its names decoded from subject tokens. A name that cannot be decoded is empty.
func Named(from call.Sender) (to call.Sender) {
	to.Tenant, _ = subjects.ParseToken(from.Tenant) // empty if it is too long to be decoded
	to.Actor, _ = subjects.ParseToken(from.Actor)
	return to
}
