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
	// Policies are the digests of the policy that the run is pinned to. Its calls are allowed only while that is in
	// force.
	Policies PolicyVersions `json:"policy_versions"`
	Start    time.Time      `json:"start"`
	End      time.Time      `json:"end,omitzero"` // when the run was closed
	By       string         `json:"by"`           // who started it: tenant and actor, with a slash between
	// Expires is set for a run that an agent has started: an active or paused one counts as closed from then on, because
	// the credential of the agent ends. It also does if that is revoked. The record is forgotten then.
	Expires time.Time `json:"expires,omitzero"`
	// Implicit states that a dispatcher started the run for calls that name none.
	Implicit bool `json:"implicit,omitzero"`
}

// MaxRunActors and MaxRunLanes are the largest numbers of actors and of lanes of a run.
const (
	MaxRunActors = 32
	MaxRunLanes  = 32
)

// RunStartRequest starts a run, which is pinned to the policy in force. An agent needs the scope run:start; the run is
// then for its own actor and sub-actors, for a role that its token carries and lanes of that role. A repeated request
// of the same sender finds the run that it has started.
type RunStartRequest struct {
	ID     string   `json:"run_id"`
	Tenant string   `json:"tenant,omitzero"` // default: that of the sender
	Actors []string `json:"actors,omitzero"` // default: the actor of an agent
	Role   string   `json:"role_id,omitzero"`
	Lanes  []string `json:"lanes,omitzero"`
	Reason string   `json:"reason,omitzero"` // at most [MaxReason] bytes, for the audit record
}

// RunChangeRequest pauses, resumes or closes a run: State is paused, active or closed. A closed run stays closed. An
// agent with the scope run:start may close the runs that it has started.
type RunChangeRequest struct {
	ID     string `json:"run_id"`
	Tenant string `json:"tenant,omitzero"` // default: that of the sender
	State  string `json:"state"`
	Reason string `json:"reason,omitzero"` // at most [MaxReason] bytes, for the audit record
	// Expect is [RunResponse.Revision] as the sender knew it; nil if the run may have any. If it has another one now,
	// the request is refused with [CodeChanged].
	Expect *uint64 `json:"expect,omitzero"`
}

// RunRequest names a run. A request that changes the run may have a reason.
type RunRequest struct {
	ID     string `json:"run_id"`
	Tenant string `json:"tenant,omitzero"` // default: that of the sender
	Reason string `json:"reason,omitzero"` // at most [MaxReason] bytes, for the audit record
}

// RunResponse has a run as it is now. Changed is false if the request changed nothing. Each change that is carried out
// gives the run a new Revision; dispatchers of earlier builds leave it out.
type RunResponse struct {
	Run      Run     `json:"run"`
	Changed  bool    `json:"changed,omitzero"`
	Revision *uint64 `json:"revision,omitzero"`
}

// RunListRequest asks for runs, from the position After on. Empty fields select all.
type RunListRequest struct {
	Tenant string `json:"tenant,omitzero"`
	State  string `json:"state,omitzero"`
	// Implicit selects implicit runs, too.
	Implicit bool   `json:"implicit,omitzero"`
	After    uint64 `json:"after,omitzero"` // Next of the page before
}

// RunListResponse is a page of runs, the one changed longest ago first. Next is 0 on the last page.
type RunListResponse struct {
	Runs []Run  `json:"runs"`
	Next uint64 `json:"next,omitzero"`
}

// RunSegment is the part of a run that one call is, as the audit record has it.
type RunSegment struct {
	Ref      string    `json:"ref,omitzero"` // reference of the call; "" if it was denied
	CallID   string    `json:"call_id"`
	Tool     string    `json:"tool_name"`
	Actor    string    `json:"actor_id"`
	Lane     string    `json:"lane_id,omitzero"`
	State    string    `json:"state"` // running, succeeded, failed, denied, or joined: it is a segment of another run
	Code     Code      `json:"error_code,omitzero"`
	Attempts int       `json:"attempts,omitzero"`
	Start    time.Time `json:"start"`
	End      time.Time `json:"end,omitzero"`
}
