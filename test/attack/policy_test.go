package attack

import (
	"bytes"
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/policy/runstore"
)

// bind adds a lane to the policy in force, in which every call is allowed, and starts runs of an actor.
func (d *devDeployment) bind(p auth.Principal, lane string, runs ...string) {
	d.Helper()
	c := d.client(d.crowd[operator])
	all, err := c.PolicyHistory(d.Context())
	d.ok(err)
	set, err := c.Policy(d.Context(), all[0].Versions)
	d.ok(err)
	const lanes = "allowed_lanes: [default"
	more := fmt.Appendf(nil, "%s, %s", lanes, lane)
	set.Roles = bytes.ReplaceAll(set.Roles, []byte(lanes), more)
	set.ToolRegistry = bytes.ReplaceAll(set.ToolRegistry, []byte(lanes), more)
	set.Lanes = fmt.Appendf(set.Lanes, "  - {lane_id: %s, allowed_tools: ['*'], write: true, runs: implicit}\n", lane)
	_, err = c.PushPolicy(d.Context(), set, all[0].Revision, "a further lane")
	d.ok(err)
	store, err := runstore.Open(d.Context(), d.js)
	d.ok(err)
	for _, id := range runs {
		d.ok(store.Create(d.Context(), envelope.Run{
			ID: id, Tenant: p.Tenant, Actors: []string{p.Actor}, State: "active", Policies: set.Versions(), Start: time.Now(),
		}))
	}
}
