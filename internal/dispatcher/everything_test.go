package dispatcher_test

import (
	"sync"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	manifests "github.com/seed-018f16cc/toolbus/internal/tool"
)

// everything is a policy that allows every call of the tool of w, in each role and lane that the tests name. It follows
// changes of the manifest.
type everything struct {
	w    *world
	mu   sync.Mutex
	of   facts
	made inForce
}

// facts hold the members of the manifest that the policy depends on.
type facts struct {
	tool, version string
	status        manifests.Status
	class         call.EffectClass
}

func (p *everything) Current() (*policy.Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.w.manifest
	if of := (facts{m.ToolID, m.Semver, m.Status, m.Class}); p.made.snapshot == nil || of != p.of {
		p.of, p.made = of, allowing(m)
	}
	return p.made.Current()
}

func allowing(m *manifests.Manifest) (made inForce) {
	d, err := policy.Generate([]*manifests.Manifest{m})
	if err != nil {
		return inForce{nil, err}
	}
	set, err := policy.Parse(d)
	if err != nil {
		return inForce{nil, err}
	}
	lanes := []string{"default", "day", "l", "l0", "l1", "m", "night"}
	set.Lanes, set.Roles, set.Entries[0].AllowedLanes = nil, nil, lanes
	for _, id := range lanes {
		set.Lanes = append(set.Lanes, policy.Lane{
			ID: id, AllowedTools: []string{"*"}, Write: true, Runs: policy.RunsImplicit,
		})
	}
	for _, id := range []string{"agent", "worker", "reader", "writer", "s"} {
		set.Roles = append(set.Roles, policy.Role{ID: id, AllowedLanes: lanes})
	}
	if set, err = policy.Parse(policy.Write(set.Roles, set.Lanes, set.Entries)); err != nil {
		return inForce{nil, err}
	}
	s, err := policy.Compile(set, []*manifests.Manifest{m})
	return inForce{s, err}
}

// begin starts runs of the actor of the tests, for the policy in force.
func (w *world) begin(ids ...string) {
	w.t.Helper()
	now, err := w.d.Policy.Current()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, id := range ids {
		w.runs.stored[id] = &policy.Run{
			Tenant: "t", Actors: []string{"agent"}, State: policy.RunActive, Pinned: now.Versions(),
		}
	}
}
