package auth

import (
	"strings"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// Bound reports whether an agent's token is for a part of what its actor does: it names a run, a lane or scopes other
// than [ScopeAll], or was narrowed. Such a token reads, cancels and hears only calls that it [Principal.Covers].
func (p Principal) Bound() bool {
	scoped := len(p.Scopes) > 0 && !p.Has(ScopeAll)
	return p.Role == Agent && (p.Run != "" || p.Lane != "" || scoped || len(p.Chain) > 0)
}

// Covers reports whether p may have made a call of a run and a lane that needs scopes: all calls of its actor, if p is
// not bound. With known false nobody knows the scopes, and only [ScopeAll] covers them.
func (p Principal) Covers(run, lane string, scopes []string, known bool) bool {
	switch {
	case !p.Bound():
		return true
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

// Below returns the tokens behind the prefix of its actor that begin the reply subjects of the holder of p: the family
// of a bound token, which renewal keeps, and nothing otherwise.
func (p Principal) Below() []string {
	if p.Bound() {
		return []string{p.Family}
	}
	return nil
}

// Answers returns the prefix of the subjects on which dispatchers and executors answer the holder of p, see
// [Principal.Below]. Unbound tokens of the actor hear the answers to a bound one, which hears no others.
func (p Principal) Answers() string {
	return subjects.Answers(p.Tenant, p.Actor) + strings.Join(append(p.Below(), ""), ".")
}

// Inbox returns the prefix of the subjects on which the server itself answers a connection with p, without a dot at its
// end.
func (p Principal) Inbox() string {
	inbox := subjects.Owner{Tenant: p.Tenant, Actor: p.Actor}.Inbox()
	return strings.Join(append([]string{inbox}, p.Below()...), ".")
}
