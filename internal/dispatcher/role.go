package dispatcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// Default values of DefaultRole and DefaultLane in [Options].
const (
	DefaultRole = "agent"
	DefaultLane = "default"
)

// role completes the request with the role, the run and the lane that it leaves out, and checks that its token carries
// the role. Without tokens, a caller has each role that it names.
func (d *Dispatcher) role(_ context.Context, c *candidate) *envelope.Error {
	to, p := &c.req.Context, cmp.Or(c.principal, &auth.Principal{})
	roles := p.Carries(d.DefaultRole)
	if len(roles) == 1 {
		to.RoleID = cmp.Or(to.RoleID, roles[0])
	}
	to.RunID, to.LaneID = cmp.Or(to.RunID, p.Run), cmp.Or(to.LaneID, p.Lane, d.DefaultLane)
	if c.principal == nil || slices.Contains(roles, to.RoleID) {
		return nil
	}
	return notCarried(roles, to.RoleID)
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
			WithFix("name one of its roles as context.role_id: " + choice)
	}
	return envelope.NewError(envelope.CodeScope, fmt.Sprintf("the token does not carry the role %.100q", role)).
		WithFix("name a role that it carries as context.role_id: " + choice +
			"; or ask an operator for a token with the role")
}

// roleOf returns the role of the call of a dead letter, or nil if a build that does not know roles admitted it and the
// request named none.
func roleOf(l DeadLetter) []string {
	a, ok := l.State.Attempt(l.Attempt)
	if !ok || a.Owner.Role == "" {
		return nil
	}
	return []string{a.Owner.Role}
}
