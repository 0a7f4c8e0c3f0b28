package envelope

import "time"

// Run is a run record: which calls may name the run, in which state it is, and which policy it belongs to.
type Run struct {
	ID     string   `json:"run_id"`
	Tenant string   `json:"tenant"`
	Actors []string `json:"actors"`           // whose calls may name the run, and those of their sub-actors
	Role   string   `json:"role_id,omitzero"` // of its calls; "" is any
	Lanes  []string `json:"lanes,omitzero"`   // of its calls; none is any
	State  string   `json:"state"`            // active, paused or closed
	// Policies are the digests of the policy that the run is pinned to. Its calls are allowed only while that is in force.
	Policies PolicyVersions `json:"policy_versions"`
	Start    time.Time      `json:"start"`
	End      time.Time      `json:"end,omitzero"` // when the run was closed
	By       string         `json:"by"`           // who started it: tenant and actor, with a slash between
	// Implicit states that a dispatcher started the run for calls that name none.
	Implicit bool `json:"implicit,omitzero"`
}
