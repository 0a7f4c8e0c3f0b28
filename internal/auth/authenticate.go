package auth

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// AuthenticateRequest returns the principal of a request for the service operation op, as [AuthenticateCall] does. It
// also checks that the role may send the request, and that the user of the connection may send it for the principal.
func AuthenticateRequest(tokens *Verifier, now time.Time, op string, from call.Sender, c call.Credential) (
	*Principal, *envelope.Error) {
	p, refusal := AuthenticateCall(tokens, now, from.Tenant, from.Actor, c.Token)
	if p == nil || refusal != nil {
		return p, refusal
	}
	if refusal := overConnection(op, p, c.User); refusal != nil {
		return nil, refusal
	}
	return p, AuthorizeOperation(op, p.Role)
}

// AuthenticateRenewal is [AuthenticateRequest] for the renewal of a token, which may have expired.
func AuthenticateRenewal(tokens *Verifier, now time.Time, from call.Sender, c call.Credential) (
	*Principal, *envelope.Error) {
	p, refusal := AuthenticateRequest(tokens, now, operation.TokenRenew.Name, from, c)
	if refusal == nil || refusal.Code != envelope.CodeExpired {
		return p, refusal
	}
	expired, err := tokens.Verify(c.Token, now)
	if !errors.Is(err, ErrExpired) || !isOf(expired, from.Tenant, from.Actor) {
		return nil, refusal
	}
	return expired, overConnection(operation.TokenRenew.Name, expired, c.User)
}

// overConnection refuses a request that came over a connection of another user. A gateway may send the requests of all
// actors of its tenant, except requests to renew or to narrow a token: with those it could keep the rights of a token
// that it forwarded once.
func overConnection(op string, p *Principal, user string) *envelope.Error {
	own := operation.Named(op).Own
	switch {
	case user == p.User() || !own && p.MayUseConnectionOf(user):
		return nil
	case own && p.MayUseConnectionOf(user):
		return envelope.NewError(envelope.CodeIdentity, "a door neither renews nor narrows the tokens of its callers").
			WithFix("renew or narrow the token over a connection of its own, or issue one for longer: " +
				"`toolbus credentials issue --life 24h`")
	}
	return envelope.NewError(envelope.CodeIdentity, "the message came over a connection that another token has opened")
}

// isOf reports whether the subject of a message has the tenant and the actor of its token.
func isOf(p *Principal, tenant, actor string) bool {
	return subjects.Token(p.Tenant) == tenant && subjects.Token(p.Actor) == actor
}

// AuthenticateCall verifies the token of a message and returns its principal. Tenant and actor are those in the subject
// of the message, as tokens of a subject, and must be those of the principal. If tokens is nil, nothing is verified: it
// returns nil and no refusal.
func AuthenticateCall(tokens *Verifier, now time.Time, tenant, actor, token string) (
	*Principal, *envelope.Error) {
	switch {
	case tokens == nil:
		return nil, nil
	case token == "":
		return nil, envelope.NewError(envelope.CodeToken, "the message carries no token")
	}
	p, err := tokens.Verify(token, now)
	switch {
	case errors.Is(err, ErrNotReady):
		return nil, envelope.NewError(envelope.CodeUnavailable, err.Error()).WithRetryAfter(time.Second).
			WithEffect(envelope.EffectUnknown) // the sender is not verified, so its call is not looked up
	case errors.Is(err, ErrExpired):
		return nil, envelope.NewError(envelope.CodeExpired, "")
	case errors.Is(err, ErrRevoked):
		return nil, envelope.NewError(envelope.CodeRevoked, "")
	case err != nil:
		return nil, envelope.NewError(envelope.CodeToken, err.Error())
	case !isOf(p, tenant, actor):
		return nil, envelope.NewError(envelope.CodeIdentity,
			fmt.Sprintf("the token is of %q in tenant %q", p.Actor, p.Tenant))
	}
	return p, nil
}

// AuthorizeOperation refuses the service operation op if its row of the table does not name the role r.
func AuthorizeOperation(op string, r Role) *envelope.Error {
	row := operation.Named(op)
	if row.Permits(r) {
		return nil
	}
	what := "the operation " + op
	if op == operation.Stored.Name {
		what = "the audit record and the dead letters"
	}
	e := ForbiddenForRole(r, what, row.Roles...)
	if r == Agent && (op == operation.Stored.Name || op == operation.RunShow.Name) {
		return e.WithFix(e.Fix + "; about its own calls an agent asks with `toolbus calls list --open` and `toolbus why REF`")
	}
	if r == Auditor && op == operation.PolicyHistory.Name {
		return e.WithFix(e.Fix + "; `toolbus audit replay --policy` takes the beginning of a digest from an auditor")
	}
	return e
}

// SeesTenant reports whether the row of the service operation op lets p use it about the calls of all actors of its
// tenant. It returns false if p is nil.
func SeesTenant(op string, p *Principal) bool {
	return p != nil && operation.Named(op).CoversTenant(p.Role)
}

// ForbiddenForRole returns the refusal A-AUTH-FORBIDDEN for a request, named by what, that the role r may not send, and
// the roles of may, if there are any, may.
func ForbiddenForRole(r Role, what string, may ...Role) *envelope.Error {
	e := envelope.NewError(envelope.CodeForbidden, fmt.Sprintf("%s: not for the role %s", what, r))
	if len(may) == 0 {
		return e.WithFix("no token may send it")
	}
	return e.WithFix(fmt.Sprintf("use a token of the role %s: `toolbus credentials issue --role %s` of an operator makes "+
		"one", listed(may), may[0]))
}

// listed returns roles as text.
func listed(roles []Role) (text string) {
	for i, r := range roles {
		if i > 0 {
			text += " or "
		}
		text += string(r)
	}
	return text
}
