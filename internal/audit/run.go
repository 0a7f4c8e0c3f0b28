package audit

import (
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// RunChange is the part of a record that describes the start or a change of a run. The record itself has the id, the
// tenant and the role of the run, and the policy that it is pinned to from then on.
type RunChange struct {
	By     string   `json:"by"` // tenant and actor who asked for it, with a slash between them
	Actors []string `json:"actors"`
	Lanes  []string `json:"lanes,omitzero"`
	State  string   `json:"state"` // from then on
	Reason string   `json:"reason,omitzero"`
	// Replaced are the digests of the policy that the run was pinned to before, in [RunRepinned].
	Replaced envelope.PolicyVersions `json:"replaced,omitzero"`
}

// RunChanged returns the record of e, [RunStarted] or another event of a run, by an actor. r is the run from then on,
// and before the policy that it was pinned to. The record is written before the change.
func RunChanged(
	e Event, by, actor string, r envelope.Run, before envelope.PolicyVersions, reason string, at time.Time,
) Record {
	change := &RunChange{By: by, Actors: r.Actors, Lanes: r.Lanes, State: r.State, Reason: reason}
	if e == RunRepinned {
		change.Replaced = before
	}
	return Record{
		Form: format.Record.Current(), Event: e, Name: "RunChanged", Timestamp: at.UTC(), Tenant: r.Tenant, Actor: actor,
		RunID: r.ID, RoleID: r.Role, Contract: ContractVersion, Policies: r.Policies, Run: change,
	}
}
