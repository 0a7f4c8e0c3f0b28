package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// Policy tells which policy is in force. policy/store.Store implements it.
type Policy interface {
	// Current returns the policy in force, or an error of package policy. It sends no messages.
	Current() (*policy.Snapshot, error)
}

// inForce notes the policy that all later stages decide by. It refuses the request while no policy can be used.
func (d *Dispatcher) inForce(_ context.Context, c *candidate) (refusal *envelope.Error) {
	c.policy, refusal = d.policyInForce()
	return refusal
}

// policyInForce returns the policy in force, or the refusal of calls and listings while no policy can be used.
func (d *Dispatcher) policyInForce() (*policy.Snapshot, *envelope.Error) {
	s, err := (*policy.Snapshot)(nil), policy.ErrNone
	if d.Policy != nil {
		s, err = d.Policy.Current()
	}
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, policy.ErrNone):
		return nil, envelope.NewError(envelope.CodePolicyVersion, policy.ErrNone.Error()).
			WithFix("an operator writes a policy with `toolbus policy init`, and puts it in force with `toolbus policy push`")
	case errors.Is(err, policy.ErrStale):
		return nil, envelope.NewError(envelope.CodeUnavailable, err.Error()).WithRetryAfter(time.Second)
	}
	return nil, envelope.NewError(envelope.CodePolicyVersion, policy.ErrUnusable.Error()).
		WithFix("the operator reads why in the log of the dispatcher, and pushes a policy that fits its tools")
}

// decides returns the check of a stage that the policy decides.
func decides(step int) func(*Dispatcher, context.Context, *candidate) *envelope.Error {
	return func(d *Dispatcher, _ context.Context, c *candidate) *envelope.Error {
		q := c.question()
		if c.rules == nil {
			c.rules = c.policy.Case()
		}
		if c.denial = c.rules.Step(step, &q); c.denial == nil {
			return nil
		}
		return c.policy.Refusal(q, *c.denial)
	}
}

func (c *candidate) question() policy.Question {
	of := c.req.Context
	q := policy.Question{
		Role: of.RoleID, Lane: of.LaneID, Tool: c.req.ToolID, Tenant: c.in.From.Tenant, Actor: c.in.From.Actor,
		RunID: of.RunID, Run: c.run, Scope: of.Scope, Input: c.input,
	}
	if c.m != nil {
		q.Version = c.m.Semver
	}
	return q
}

// noTool returns the answer to a call of a tool that does not exist. It suggests only tools that the caller may know.
func (c *candidate) noTool() *envelope.Error {
	return envelope.NoTool(c.req.ToolID, c.policy.Visible(c.req.Context.RoleID, ""))
}

// recorded returns what the record says of a refusal: of a denial by policy, the true reason.
func (r request) recorded(stage string, e *envelope.Error) audit.Refusal {
	of := audit.Refusal{In: r.in, Req: r.req, Error: e, Step: r.step, Rule: stage}
	if r.policy != nil {
		of.Policies = r.policy.Versions()
	}
	if d := r.denial; d != nil {
		of.Step, of.Rule = d.True.Step, d.True.Rule.String()
		if d.True.Code != d.Code { // the caller may not know the tool
			of.Error = envelope.NewError(d.True.Code, "").WithEffect(e.Details.Effect)
		}
	}
	return of
}
