package runstore

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// Sender sent a request about runs. Token is nil on a bus without tokens, where every sender may do what operators may.
type Sender struct {
	Tenant, Actor string
	Token         *auth.Principal
}

func (s Sender) name() string { return s.Tenant + "/" + s.Actor }

func (s Sender) operates() bool { return s.Token == nil || s.Token.Role == auth.Operator }

// owns reports whether the sender may change a run: an agent may change those that it or a sub-actor has started.
func (s Sender) owns(r *envelope.Run) bool {
	if s.operates() {
		return true
	}
	return !r.Implicit && r.Tenant == s.Tenant && (r.By == s.name() || auth.IsSub(r.By, s.name()))
}

// orOwn returns the tenant, or that of the sender if it is empty.
func orOwn(tenant string, by Sender) string { return cmp.Or(tenant, by.Tenant) }

// mayStart returns the request with what it leaves out, or a refusal if the sender may not start the run.
func (s *Service) mayStart(by Sender, q envelope.RunStartRequest) (envelope.RunStartRequest, *envelope.Error) {
	q.Tenant = orOwn(q.Tenant, by)
	if len(q.Actors) == 0 && (by.Token == nil || !by.operates()) {
		q.Actors = []string{by.Actor}
	}
	if by.operates() {
		return q, nil
	}
	roles := by.Token.Carries(s.DefaultRole)
	if q.Role == "" && len(roles) == 1 {
		q.Role = roles[0]
	}
	if len(q.Lanes) == 0 && by.Token.Lane != "" {
		q.Lanes = []string{by.Token.Lane}
	}
	return q, by.exceeds(q, roles)
}

// exceeds returns a refusal if an agent asks for a run with more rights than it has.
func (s Sender) exceeds(q envelope.RunStartRequest, roles []string) *envelope.Error {
	if refusal := s.mayTouch(q.Tenant, q.ID); refusal != nil {
		return refusal
	}
	for _, actor := range q.Actors {
		if actor != s.Actor && !auth.IsSub(actor, s.Actor) {
			return beyond("the actor %.100q is neither yours nor a part of it", actor)
		}
	}
	for _, lane := range q.Lanes {
		if s.Token.Lane != "" && lane != s.Token.Lane {
			return beyond("the token is for lane %.100q alone", s.Token.Lane)
		}
	}
	if !slices.Contains(roles, q.Role) {
		return beyond("the token does not carry the role %.100q", q.Role)
	}
	return nil
}

// mayTouch returns a refusal if an agent may neither start nor close a run.
func (s Sender) mayTouch(tenant, id string) *envelope.Error {
	switch {
	case !s.Token.Has(auth.ScopeRun):
		return beyond("the token has no scope %s", auth.ScopeRun)
	case tenant != s.Tenant:
		return beyond("the tenant %.100q is another one", tenant)
	case s.Token.Run != "" && id != s.Token.Run:
		return beyond("the token is for run %.100q alone", s.Token.Run)
	}
	return nil
}

// mayChange returns a refusal if the sender may not ask for the change.
func (s Sender) mayChange(q envelope.RunChangeRequest) *envelope.Error {
	switch {
	case s.operates():
		return nil
	case q.State != string(policy.RunClosed):
		return auth.ForbiddenForRole(s.Token.Role, "to pause or resume a run", auth.Operator)
	}
	return s.mayTouch(orOwn(q.Tenant, s), q.ID)
}

func beyond(format string, args ...any) *envelope.Error {
	return envelope.NewError(envelope.CodeScope, fmt.Sprintf(format, args...)).
		WithFix("ask an operator, or for a token with the scope " + auth.ScopeRun + " and the role of the run")
}
