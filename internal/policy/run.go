package policy

import (
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// Run has the facts of a run that a decision depends on.
type Run struct {
	Tenant string
	Actors []string // actors whose calls may belong to the run, and those of their sub-actors
	Role   string   // role of its calls; "" is any
	Lanes  []string // lanes of its calls; none is any
	State  RunState
	Pinned envelope.PolicyVersions // of the policy set that the run was started with
}

// of reports whether the run belongs to an actor of a tenant.
func (r *Run) of(tenant, actor string) bool {
	return r.Tenant == tenant && slices.ContainsFunc(r.Actors, func(listed string) bool {
		return listed == actor || auth.IsSub(actor, listed)
	})
}

// has reports whether calls of a role and in a lane may belong to the run.
func (r *Run) has(role, lane string) bool {
	return (r.Role == "" || r.Role == role) && (len(r.Lanes) == 0 || slices.Contains(r.Lanes, lane))
}
