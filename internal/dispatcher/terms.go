package dispatcher

import (
	"context"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// terms hold how a call runs, by the manifest, the entry and the lane together. Its attempt keeps them.
type terms struct {
	class        call.EffectClass
	strict       bool     // the call starts only when its request is on record
	writeTargets []string // see policy.Rules
}

// merged sets the terms of a call. It refuses none.
func (d *Dispatcher) merged(_ context.Context, c *candidate) *envelope.Error {
	c.terms = terms{class: c.m.Class}
	rules, _ := c.policy.Rules(c.m.ToolID, c.m.Semver)
	lane, _ := c.policy.Lane(c.req.Context.LaneID)
	c.terms.writeTargets, c.terms.strict = rules.WriteTargets, lane.Audit == policy.AuditStrict
	c.terms.class = restricted(c.m.Class, rules)
	return nil
}

// restricted returns the effect class of calls of a tool. An entry that is not idempotent makes an idempotent tool
// side-effectful: no run of it is repeated.
func restricted(class call.EffectClass, rules policy.Rules) call.EffectClass {
	if class == call.Idempotent && !rules.Idempotent {
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
