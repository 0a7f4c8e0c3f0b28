package check

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// Policy tells which policy is in force. policy/store.Store implements it.
type Policy interface {
	// Current returns the policy in force, or an error of package policy. It sends no messages.
	Current() (*policy.Snapshot, error)
}

// inForce notes the policy that all later stages decide by, and sets the lane of a request that names none. It refuses
// the request while no policy can be used.
func (s *Stages) inForce(_ context.Context, c *candidate) (refusal *envelope.Error) {
	c.Policy, refusal = s.policyInForce()
	if claims := &c.Req.Context; c.laneless && refusal == nil {
		claims.LaneID = c.Policy.LaneFor(claims.RoleID, c.Req.ToolID, s.DefaultLane)
	}
	return refusal
}

// policyInForce returns the policy in force, or the refusal of calls and listings while no policy can be used.
func (s *Stages) policyInForce() (*policy.Snapshot, *envelope.Error) {
	now, err := (*policy.Snapshot)(nil), policy.ErrNone
	if s.Policy != nil {
		now, err = s.Policy.Current()
	}
	switch {
	case err == nil:
		return now, nil
	case errors.Is(err, policy.ErrNone):
		return nil, envelope.NewError(envelope.CodePolicyVersion, policy.ErrNone.Error()).
			WithFix("an operator writes a policy with `toolbus policy init`, and puts it in force with `toolbus policy push`")
	case errors.Is(err, policy.ErrStale):
		return nil, envelope.NewError(envelope.CodeUnavailable, err.Error()).WithRetryAfter(time.Second).
			WithFix("call again with the same key; if it goes on, the operator checks the bus with `toolbus doctor`")
	}
	return nil, envelope.NewError(envelope.CodePolicyVersion, policy.ErrUnusable.Error()).
		WithFix("the operator reads why in the log of the dispatcher, and pushes a policy that fits its tools")
}

// decides returns the check of a stage that the policy decides.
func decides(step int) func(*Stages, context.Context, *candidate) *envelope.Error {
	return func(_ *Stages, _ context.Context, c *candidate) *envelope.Error {
		q := c.question()
		if c.rules == nil {
			c.rules = c.Policy.Case()
		}
		if c.Denial = c.rules.Step(step, &q); c.Denial == nil {
			return nil
		}
		return c.Policy.Refusal(q, *c.Denial)
	}
}

func (c *candidate) question() policy.Question {
	q := c.Request.question()
	q.Input, q.Laneless = c.input, c.laneless
	q.LaneBound = c.Principal != nil && c.Principal.Lane != ""
	return q
}

// question returns the question that the policy decides, without the input.
func (r *Request) question() policy.Question {
	claims := r.Req.Context
	q := policy.Question{
		Role: claims.RoleID, Lane: claims.LaneID, Tool: r.Req.ToolID, Tenant: r.In.From.Tenant, Actor: r.In.From.Actor,
		RunID: claims.RunID, Run: r.Run, Scope: claims.Scope,
	}
	if r.Tool != nil {
		q.Version = r.Tool.Semver
	}
	return q
}

// Facts returns what the policy has decided the request by, for its record. ok is false if the request was refused
// before its run was decided about.
func (r *Request) Facts() (f policy.Facts, ok bool) {
	if r.Policy == nil || r.Denial == nil && r.Step <= policy.StepRun {
		return f, false
	}
	return r.Policy.Facts(r.question()), true
}

// noTool returns the answer to a call of a tool that does not exist. It suggests only tools that the caller may know.
func (c *candidate) noTool() *envelope.Error {
	return envelope.NoTool(c.Req.ToolID, c.Policy.Visible(c.Req.Context.RoleID, ""))
}

// Runs finds and starts runs. policy/runstore.Store implements it.
type Runs interface {
	// Known returns a run as it was within the last second, if that is known. It sends no messages.
	Known(tenant, id string) (r *policy.Run, ok bool)
	// Find returns a run, or nil for an unknown id, as it was within the last second, and after a time. It usually sends
	// no messages if the time is zero.
	Find(ctx context.Context, tenant, id string, after time.Time) (*policy.Run, error)
	// Start returns the implicit run r, which it creates if it does not exist.
	Start(ctx context.Context, r envelope.Run) (*policy.Run, error)
}

// inRun checks the run of the call. A call that names no run gets an implicit one where its lane has such runs.
func (s *Stages) inRun(ctx context.Context, c *candidate) *envelope.Error {
	if refusal := s.findRun(ctx, c, time.Time{}); refusal != nil {
		return refusal
	}
	refusal := decides(policy.StepRun)(s, ctx, c)
	if refusal == nil || c.Run == nil {
		return refusal
	}
	// The run may have changed within the last second: it may have been resumed.
	if refusal := s.findRun(ctx, c, c.arrived); refusal != nil {
		return refusal
	}
	c.Denial = nil
	return decides(policy.StepRun)(s, ctx, c)
}

// findRun sets the run of the candidate, as it was after a time. It starts an implicit run that does not exist.
func (s *Stages) findRun(ctx context.Context, c *candidate, after time.Time) *envelope.Error {
	claims := &c.Req.Context
	implicit := c.implicit && claims.RunID != "" || c.Policy.StartsRun(c.question())
	if s.Runs == nil || claims.RunID == "" && !implicit {
		return nil
	}
	id := claims.RunID
	if implicit {
		id = c.implicitRunID()
	}
	run, known := s.Runs.Known(c.In.From.Tenant, id)
	if !known || !after.IsZero() {
		ctx, cancel := s.waiting(ctx, c, time.Second) // a later stage refuses a request that came too late
		defer cancel()
		var err error
		if run, err = s.Runs.Find(ctx, c.In.From.Tenant, id, after); err == nil && run == nil && implicit {
			run, err = s.Runs.Start(ctx, c.implicitRun(id, s.now()))
		}
		if err != nil {
			return envelope.NewError(envelope.CodeUnavailable, "the run of the call could not be looked up").
				WithRetryAfter(time.Second).WithCause(err.Error())
		}
	}
	if c.Run = run; implicit && run != nil {
		claims.RunID, c.implicit = id, true
		c.Run = run.Including(c.In.From.Actor) // another actor of the token family may have started it
	}
	return nil
}

// implicitRunID returns the id of the implicit run of the caller: of its token and all that were narrowed from the
// same one or, without a token, of its actor.
func (c *candidate) implicitRunID() string {
	family, actor := "", c.In.From.Actor
	if c.Principal != nil && c.Principal.Family != "" { // the principal of a replay has none
		family, actor = c.Principal.Root(), ""
	}
	return policy.ImplicitRunID(c.In.From.Tenant, family, actor, c.Policy.Versions())
}

// implicitRun returns a new implicit run of the caller.
func (c *candidate) implicitRun(id string, now time.Time) envelope.Run {
	from := c.In.From
	return envelope.Run{
		ID: id, Tenant: from.Tenant, Actors: []string{from.Actor}, State: string(policy.RunActive),
		Policies: c.Policy.Versions(), Start: now.UTC(), By: from.Tenant + "/" + from.Actor, Implicit: true,
	}
}

// terms hold how a call runs, by the manifest, the entry and the lane together. Its attempt keeps them.
type terms struct {
	class        call.EffectClass
	strict       bool     // the call starts only when its request is on record
	writeTargets []string // see policy.Rules
}

// merged sets the terms of a call. It refuses none.
func (s *Stages) merged(_ context.Context, c *candidate) *envelope.Error {
	c.terms = terms{class: c.Tool.Class}
	rules, _ := c.Policy.Rules(c.Tool.ToolID, c.Tool.Semver)
	lane, _ := c.Policy.Lane(c.Req.Context.LaneID)
	c.terms.writeTargets, c.terms.strict = rules.WriteTargets, lane.Audit == policy.AuditStrict
	c.terms.class = restricted(c.Tool.Class, rules)
	return nil
}

// restricted returns the effect class of calls of a tool. An entry that is not idempotent makes any tool
// side-effectful: no run of it is repeated.
func restricted(class call.EffectClass, rules policy.Rules) call.EffectClass {
	if !rules.Idempotent {
		return call.SideEffectful
	}
	return class
}

// folders returns the folders in which a path of the input may be absolute: those of the manifest, and those that are
// write targets. A target that allows everything names no folder.
func (t terms) folders(declared []string) []string {
	all := slices.Clip(declared)
	for _, target := range t.writeTargets {
		if folder := strings.TrimPrefix(strings.TrimPrefix(target, "file:"), "//"); strings.HasPrefix(folder, "/") {
			all = append(all, folder)
		}
	}
	return all
}

// bounds returns the write targets for the executor; nil if every target is allowed.
func (t terms) bounds() []string {
	if slices.Contains(t.writeTargets, call.AnyTarget) {
		return nil
	}
	return t.writeTargets
}
