package audit

import (
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// PolicyPush is the part of a record that describes the push of a policy set, or the rollback to one. [Record.Policies]
// has the digests of its documents.
type PolicyPush struct {
	By       string `json:"by"`                // tenant and actor of the operator, with a slash between them
	Replaced uint64 `json:"replaced"`          // revision of the policy in force before; 0 for the first one
	Revision uint64 `json:"revision,omitzero"` // of the set, once it is in force: in the result of the push
	Reason   string `json:"reason,omitzero"`
}

// About returns the record of a push by an operator. It is written before the set is in force.
func (p PolicyPush) About(tenant, actor string, v envelope.PolicyVersions, at time.Time) Record {
	return Record{
		Form: format.Record.Current(), Event: PolicyPushed, Name: "PolicyChanged", Timestamp: at.UTC(), Tenant: tenant,
		Actor: actor, Contract: ContractVersion, Policies: v, Push: &p,
	}
}

// Stored returns a copy of p with the revision that the set has got.
func (p *PolicyPush) Stored(revision uint64) *PolicyPush {
	stored := *p
	stored.Revision = revision
	return &stored
}
