package gate

import (
	"errors"
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/identity"
	"github.com/seed-018f16cc/toolbus/question"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Asks returns who is behind a question, as [Identify] does: somebody whose own connection it came over, or a door's.
func Asks(tokens *identity.Checker, now time.Time, tenant, actor string, c question.Credential) (
	*identity.Principal, *envelope.Error) {
	p, refusal := Identify(tokens, now, tenant, actor, c.Token)
	if p != nil && !p.Speaker(c.User) {
		return nil, envelope.NewError(envelope.CodeIdentity,
			"the message came over a connection that another token has opened")
	}
	return p, refusal
}

// Identify returns who is behind a message, whose subject has those tokens. Without a checker it is whoever the subject
// says: nil, and no refusal. The server lets nobody but that actor, and doors of its tenant, publish on that subject.
func Identify(tokens *identity.Checker, now time.Time, tenant, actor, token string) (
	*identity.Principal, *envelope.Error) {
	switch {
	case tokens == nil:
		return nil, nil
	case token == "":
		return nil, envelope.NewError(envelope.CodeToken, "the message carries no token")
	}
	p, err := tokens.Check(token, now)
	switch {
	case errors.Is(err, identity.ErrNotReady):
		return nil, envelope.NewError(envelope.CodeUnavailable, err.Error()).WithRetryAfter(time.Second).
			WithEffect(envelope.EffectUnknown) // no log is read for a stranger
	case errors.Is(err, identity.ErrExpired):
		return nil, envelope.NewError(envelope.CodeExpired, "")
	case errors.Is(err, identity.ErrRevoked):
		return nil, envelope.NewError(envelope.CodeRevoked, "")
	case err != nil:
		return nil, envelope.NewError(envelope.CodeToken, err.Error())
	case subjects.Token(p.Tenant) != tenant || subjects.Token(p.Actor) != actor:
		return nil, envelope.NewError(envelope.CodeIdentity,
			fmt.Sprintf("the token is of %q in tenant %q", p.Actor, p.Tenant))
	}
	return p, nil
}

// MayAsk refuses a question that is not for a role.
func MayAsk(op string, r identity.Role) *envelope.Error {
	may := r == identity.Agent || r == identity.Operator
	switch op {
	case subjects.OpTokenRenew:
		may = true
	case subjects.OpTokenNarrow, subjects.OpDescribe:
		may = r != identity.Executor
	case subjects.OpStored:
		may = r == identity.Auditor || r == identity.Operator
	case subjects.OpHealth, subjects.OpInventory, subjects.OpTokenIssue, subjects.OpTokenRevoke, subjects.OpTokenList,
		subjects.OpKeyRotate:
		may = r == identity.Operator
	}
	if may {
		return nil
	}
	return NotFor(r, "the question "+op)
}

// NotFor refuses what is not for a role.
func NotFor(r identity.Role, what string) *envelope.Error {
	return envelope.NewError(envelope.CodeForbidden, fmt.Sprintf("%s: not for the role %s", what, r)).
		WithFix("use a token of a role that may")
}
