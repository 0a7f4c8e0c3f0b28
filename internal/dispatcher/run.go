package dispatcher

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// Runs finds and starts runs. policy/runstore.Store implements it.
type Runs interface {
	// Known returns a run as it was within the last second, if that is known. It sends no messages.
	Known(tenant, id string) (r *policy.Run, ok bool)
	// Find returns a run, or nil for an unknown id, as it was within the last second or, if current is true, after the
	// call of Find. It usually sends no messages if current is false.
	Find(ctx context.Context, tenant, id string, current bool) (*policy.Run, error)
	// Start returns the implicit run r, which it creates if it does not exist.
	Start(ctx context.Context, r envelope.Run) (*policy.Run, error)
}

// inRun checks the run of the call. A call that names no run gets an implicit one where its lane has such runs.
func (d *Dispatcher) inRun(ctx context.Context, c *candidate) *envelope.Error {
	if refusal := d.findRun(ctx, c, false); refusal != nil {
		return refusal
	}
	refusal := decides(policy.StepRun)(d, ctx, c)
	if refusal == nil || c.run == nil {
		return refusal
	}
	// The run may have changed within the last second: it may have been resumed.
	if refusal := d.findRun(ctx, c, true); refusal != nil {
		return refusal
	}
	c.denial = nil
	return decides(policy.StepRun)(d, ctx, c)
}

// findRun sets the run of the candidate. It starts an implicit run that does not exist.
func (d *Dispatcher) findRun(ctx context.Context, c *candidate, current bool) *envelope.Error {
	to := &c.req.Context
	implicit := c.policy.StartsRun(c.question())
	if d.Runs == nil || to.RunID == "" && !implicit {
		return nil
	}
	id := to.RunID
	if implicit {
		id = c.implicitRunID()
	}
	run, known := d.Runs.Known(c.in.From.Tenant, id)
	if current || !known {
		c.in.OnlyWaits() // later requests of the sender need not wait for the bucket
		var err error
		if run, err = d.Runs.Find(ctx, c.in.From.Tenant, id, current); err == nil && run == nil && implicit {
			run, err = d.Runs.Start(ctx, c.implicitRun(id, d.Now()))
		}
		if err != nil {
			return envelope.NewError(envelope.CodeUnavailable, "the run of the call could not be looked up").
				WithRetryAfter(time.Second).WithCause(err.Error())
		}
	}
	if c.run = run; implicit && run != nil {
		to.RunID = id
	}
	return nil
}

// implicitRunID returns the id of the implicit run of the caller: of its token or, without one, of its actor.
func (c *candidate) implicitRunID() string {
	family, actor := "", c.in.From.Actor
	if c.principal != nil && c.principal.Family != "" { // the principal of a replay has none
		family, actor = c.principal.Family, ""
	}
	return policy.ImplicitRunID(c.in.From.Tenant, family, actor, c.policy.Versions())
}

// implicitRun returns a new implicit run of the caller.
func (c *candidate) implicitRun(id string, now time.Time) envelope.Run {
	from := c.in.From
	return envelope.Run{
		ID: id, Tenant: from.Tenant, Actors: []string{from.Actor}, State: string(policy.RunActive),
		Policies: c.policy.Versions(), Start: now.UTC(), By: from.Tenant + "/" + from.Actor, Implicit: true,
	}
}
