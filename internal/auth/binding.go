package auth

import (
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Bound reports whether p is an agent whose token is limited to some of the calls of its actor: it names a run, a lane
// or scopes without [ScopeAll], or was narrowed. Its holder can read, cancel and receive chunks only of calls that p
// covers, see [Principal.Covers].
func (p Principal) Bound() bool {
	scoped := len(p.Scopes) > 0 && !p.Has(ScopeAll)
	return p.Role == Agent && (p.Run != "" || p.Lane != "" || scoped || len(p.Chain) > 0)
}

// Covers reports whether p could have made a call of its actor with this role, run and lane that needs these scopes. An
// unbound p covers all calls of its actor. If known is false, the scopes of the call are not known, and only a token
// with [ScopeAll] covers it. The role is "" if a build that does not know roles admitted the call. It then has no
// effect.
func (p Principal) Covers(role, run, lane string, scopes []string, known bool) bool {
	switch {
	case !p.Bound():
		return true
	case role != "" && !slices.Contains(p.Carries(role), role):
		return false
	case p.Run != "" && p.Run != run, p.Lane != "" && p.Lane != lane:
		return false
	case p.Has(ScopeAll):
		return true
	}
	for _, s := range scopes {
		known = known && p.Has(s)
	}
	return known
}

// Below returns the tokens of a subject that follow the actor in the reply subjects of the holder of p: the family if p
// is bound, otherwise none. A renewed token has the same family, so its reply subjects stay the same.
func (p Principal) Below() []string {
	if p.Bound() {
		return []string{p.Family}
	}
	return nil
}

// Answers returns the prefix, with a dot at its end, of the subjects on which dispatchers and executors answer the
// holder of p, see [Principal.Below]. A holder of an unbound token of the actor can also subscribe to the answers to
// bound ones. A holder of a bound token cannot subscribe to other answers.
func (p Principal) Answers() string {
	return subjects.Answers(p.Tenant, p.Actor) + strings.Join(append(p.Below(), ""), ".")
}

// Inbox returns the inbox prefix of a connection with p, without a dot at its end. On it the NATS server itself
// answers, for example JetStream requests.
func (p Principal) Inbox() string {
	inbox := subjects.Owner{Tenant: p.Tenant, Actor: p.Actor}.Inbox()
	return strings.Join(append([]string{inbox}, p.Below()...), ".")
}
