package check

import (
	"context"
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Listing selects the tools that one caller may know. Make one with [Stages.Listing].
type Listing struct {
	Versions envelope.PolicyVersions // of the policy in force; zero without one
	inForce  *policy.Snapshot        // nil without one
	policy   *policy.Snapshot        // nil: the caller may know every tool
	caller   *auth.Principal         // nil without tokens
	roles    []string
}

// Listing returns the selection for the sender of a describe request: the tools of which at least one call could be
// allowed to it. An operator may know every tool, and so may, without tokens, a caller that asks for all. While no
// policy can be used, Listing refuses other callers as calls are refused.
func (s *Stages) Listing(ctx context.Context, q envelope.DescribeRequest) (Listing, *envelope.Error) {
	p := auth.FromContext(ctx)
	now, refusal := s.policyInForce()
	l := Listing{inForce: now, caller: p, roles: s.rolesOf(p, q.RoleID)}
	if now != nil {
		l.Versions = now.Versions()
	}
	if p == nil && q.All || p != nil && p.Role == auth.Operator {
		return l, nil
	}
	l.policy = now
	return l, refusal
}

// rolesOf returns the roles of a caller that names one, or none. Without tokens, it has each role that it names.
func (s *Stages) rolesOf(p *auth.Principal, named string) []string {
	switch {
	case p == nil && named == "":
		return []string{s.DefaultRole}
	case p == nil:
		return []string{named}
	}
	roles := p.Carries(s.DefaultRole)
	if named == "" {
		return roles
	}
	return slices.DeleteFunc(slices.Clone(roles), func(role string) bool { return role != named })
}

// All reports whether the caller may know every tool.
func (l Listing) All() bool { return l.policy == nil }

// Shows reports whether the caller may know a tool.
func (l Listing) Shows(m *tool.Manifest) bool {
	if l.All() {
		return true
	}
	lane := ""
	if l.caller != nil {
		lane = l.caller.Lane
		if slices.ContainsFunc(m.Security.RequiredScopes, func(s string) bool { return !l.caller.Has(s) }) {
			return false
		}
	}
	return slices.ContainsFunc(l.roles, func(role string) bool { return l.policy.Shows(role, lane, m.ToolID) })
}

// Restrict puts into the description of a tool what its entry in the policy restricts of the manifest: the timeout of a
// call that names none, and whether a call may be repeated.
func (l Listing) Restrict(t *envelope.ToolInfo) {
	if l.inForce == nil {
		return
	}
	rules, ok := l.inForce.Rules(t.ToolID, t.Version)
	if !ok {
		return
	}
	t.TimeoutDefaultMS = min(t.TimeoutDefaultMS, rules.TimeoutDefaultMS)
	if class := restricted(call.EffectClass(t.Determinism), rules); string(class) != t.Determinism {
		t.ReadOnly = t.ReadOnly || t.Determinism == string(call.Pure)
		t.Determinism, t.Effect = string(class), call.EffectNonIdempotentWrite
	}
}
