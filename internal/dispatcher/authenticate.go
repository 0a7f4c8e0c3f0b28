package dispatcher

import (
	"context"
	"fmt"
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// credential checks what vouches for a request, where this dispatcher asks for tokens: that it is its actor's, who may
// call, with the scopes, in the run and in the lane that the request is of.
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
	case p.Run != "" && to.RunID != p.Run:
		return envelope.NewError(envelope.CodeScope, fmt.Sprintf("the token is for run %.100q alone", p.Run))
	case p.Lane != "" && to.LaneID != p.Lane:
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

// scopes checks that a caller has the scopes that the tool requires: by its token, or, where nobody has any, by its
// word.
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

// Authenticate checks what vouches for a question, and that whoever asks may ask it. A refusal is on record.
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

// RecordDenied puts on record that a question was refused, and returns what whoever asked is told.
func (d *Dispatcher) RecordDenied(ctx context.Context, from call.Sender, refusal *envelope.Error) *envelope.Error {
	if _, _, err := d.Records.Denied(ctx, &call.IncomingRequest{From: named(from)}, nil, refusal); err != nil {
		return envelope.NewError(envelope.CodeAuditLag, "").WithCause(err.Error())
	}
	return refusal
}

// named returns the names of a sender that is known by its tokens, as far as they say them.
func named(from call.Sender) (to call.Sender) {
	to.Tenant, _ = subjects.ParseToken(from.Tenant) // too long: it is left out
	to.Actor, _ = subjects.ParseToken(from.Actor)
	return to
}
