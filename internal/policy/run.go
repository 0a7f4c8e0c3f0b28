package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

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

// implicitPrefix begins the ids of implicit runs, and of no other run.
const implicitPrefix = "implicit-"

// ImplicitRunID returns the id of the implicit run of a caller under a policy. The caller is the family of its token
// or, without tokens, its actor; the other one is "".
func ImplicitRunID(tenant, family, actor string, v envelope.PolicyVersions) string {
	const typicalSize = 384 // so that calls that name no run cost little
	names := make([]byte, 0, typicalSize)
	for _, name := range [...]string{v.Roles, v.Lanes, v.ToolRegistry, family, actor, tenant} {
		names = append(append(names, name...), 0)
	}
	sum := sha256.Sum256(names)
	id := append(make([]byte, 0, len(implicitPrefix)+len(sum)), implicitPrefix...)
	return string(hex.AppendEncode(id, sum[:len(sum)/2]))
}

// IsImplicitRunID reports whether an id is one of [ImplicitRunID].
func IsImplicitRunID(id string) bool { return strings.HasPrefix(id, implicitPrefix) }

// StartsRun reports whether the call belongs to an implicit run: it names no run, its lane has implicit runs, and its
// role may use the lane.
func (s *Snapshot) StartsRun(q Question) bool {
	v := s.view(q)
	return q.RunID == "" && v.lane != nil && v.lane.Runs == RunsImplicit && v.inLane().code == ""
}

// CheckRun returns an error if the policy does not allow a run for a role and lanes. "" is any role, and no lanes are
// all.
func (s *Snapshot) CheckRun(role string, lanes []string) error {
	of, known := s.roles[role]
	if role != "" && !known {
		return fmt.Errorf("the policy has no role %q", clip(role))
	}
	for _, id := range lanes {
		switch l := s.lanes[id]; {
		case l == nil:
			return fmt.Errorf("the policy has no lane %q", clip(id))
		case known && !of.has(l.index):
			return fmt.Errorf("the role %q may not use the lane %q", role, id)
		}
	}
	return nil
}
