package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Defaults of DefaultRole and DefaultLane in [Options].
const (
	DefaultRole = "agent"
	DefaultLane = "default"
)

// role completes the request with the role, the run and the lane that it leaves out, and checks that its token carries
// the role. Without tokens, a caller has each role that it names.
func (s *Stages) role(_ context.Context, c *candidate) *envelope.Error {
	claims, p := &c.Req.Context, cmp.Or(c.Principal, &auth.Principal{})
	roles := p.Carries(s.DefaultRole)
	if len(roles) == 1 {
		claims.RoleID = cmp.Or(claims.RoleID, roles[0])
	}
	claims.RunID, claims.LaneID = cmp.Or(claims.RunID, p.Run), cmp.Or(claims.LaneID, p.Lane)
	if claims.LaneID == "" {
		claims.LaneID, c.laneless = s.DefaultLane, true
	}
	if c.Principal == nil || slices.Contains(roles, claims.RoleID) {
		return nil
	}
	return notCarried(roles, claims.RoleID)
}

// notCarried refuses a request whose role is not one of roles, which its token carries.
func notCarried(roles []string, role string) *envelope.Error {
	choice := strings.Join(roles, ", ")
	switch {
	case len(roles) == 0:
		return envelope.NewError(envelope.CodeScope, "the token has lost its roles: a dispatcher of an earlier build "+
			"renewed or narrowed it").WithFix("replace all dispatchers, then ask for a new token, or narrow one again")
	case role == "":
		return envelope.NewError(envelope.CodeScope, "context.role_id is missing, and the token carries more than one role").
			WithFix("name one of its roles as context.role_id (--role-id of toolbus call): " + choice)
	}
	return envelope.NewError(envelope.CodeScope, fmt.Sprintf("the token does not carry the role %.100q", role)).
		WithFix("name a role that it carries as context.role_id (--role-id of toolbus call): " + choice +
			"; or ask an operator for a token with the role")
}

// token checks the token of a request, if this dispatcher has a verifier: the token must belong to the actor of
// the subject, have the role agent, and allow the scopes, run and lane of the request.
func (s *Stages) token(_ context.Context, c *candidate) *envelope.Error {
	if s.Tokens == nil || c.Principal != nil {
		return nil
	}
	c.proven = true
	from, claims := c.In.From, c.Req.Context
	p, refusal := auth.AuthenticateCall(s.Tokens, s.now(), subjects.Token(from.Tenant), subjects.Token(from.Actor),
		c.In.Token)
	switch {
	case refusal != nil:
		return refusal
	case p.Role != auth.Agent:
		return auth.ForbiddenForRole(p.Role, "calls", auth.Agent)
	case p.Run != "" && claims.RunID != "" && claims.RunID != p.Run:
		return envelope.NewError(envelope.CodeScope, fmt.Sprintf("the token is for run %.100q alone", p.Run))
	case p.Lane != "" && claims.LaneID != "" && claims.LaneID != p.Lane:
		return envelope.NewError(envelope.CodeScope, fmt.Sprintf("the token is for lane %.100q alone", p.Lane))
	}
	if refusal := misdirected(p, c.In.Reply); refusal != nil {
		return refusal
	}
	for _, s := range claims.Scopes {
		if !p.Has(s) {
			return envelope.NewError(envelope.CodeScope, fmt.Sprintf("context.scopes claims %.100q, and the token does not", s))
		}
	}
	c.Principal = p
	return nil
}

// scopes checks that the caller has the scopes that the tool requires: in its token, or, without tokens, in
// context.scopes of the request.
func (s *Stages) scopes(_ context.Context, c *candidate) *envelope.Error {
	for _, s := range c.Tool.Security.RequiredScopes {
		has := slices.Contains(c.Req.Context.Scopes, s)
		if c.Principal != nil {
			has = c.Principal.Has(s)
		}
		if !has {
			return envelope.NewError(envelope.CodeScope, fmt.Sprintf("tool %q requires the scope %.100q", c.Tool.ToolID, s))
		}
	}
	return nil
}

// Authenticate checks the token of a request for the service operation op, and whether its role may send it.
func (s *Stages) Authenticate(op string, from call.Sender, c call.Credential) (*auth.Principal, *envelope.Error) {
	p, refusal := auth.AuthenticateRequest(s.Tokens, s.now(), op, from, c)
	if refusal == nil && p != nil {
		refusal = misdirected(p, c.Reply)
	}
	return p, refusal
}

// misdirected refuses a message that names a reply subject that the permissions of its bound token do not let it
// subscribe to.
func misdirected(p *auth.Principal, reply string) *envelope.Error {
	if !p.Bound() || strings.HasPrefix(reply, p.Answers()) {
		return nil
	}
	return envelope.NewError(envelope.CodeIdentity,
		"a token that is bound to a run, a lane or scopes is answered below "+p.Answers()).
		WithFix("name a reply subject that begins so")
}

// Covers reports whether the holder of a token may learn of an attempt, see [auth.Principal.Covers]. It returns true
// if p is nil, which means that the deployment has no tokens.
func Covers(p *auth.Principal, a call.Attempt) bool {
	if p == nil {
		return true
	}
	scopes, known := a.Owner.Needs()
	return p.Covers(a.Owner.Role, a.Owner.Run, a.Owner.Lane, scopes, known)
}
