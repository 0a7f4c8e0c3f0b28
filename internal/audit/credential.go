package audit

import (
	"time"

	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// Credential is the part of a record that describes a credential. It never contains a token.
type Credential struct {
	By     string    `json:"by"` // tenant and actor who requested the operation, with a slash between them
	Role   string    `json:"role,omitzero"`
	Family string    `json:"family,omitzero"`
	Chain  []string  `json:"chain,omitzero"` // families that it was narrowed from, oldest first
	Scopes []string  `json:"scopes,omitzero"`
	Roles  []string  `json:"role_ids,omitzero"`
	Pool   string    `json:"pool,omitzero"`
	Until  time.Time `json:"until,omitzero"` // end of its validity, including renewals
	KeyID  string    `json:"key_id,omitzero"`
	Reason string    `json:"reason,omitzero"` // of the operator who revoked it
	// Distrust means that all tokens of former keys became invalid with the rotation of the key.
	Distrust bool `json:"distrust,omitzero"`
}

// About returns the record of an operation on a credential of an actor.
func (c Credential) About(e Event, tenant, actor, run, lane string, at time.Time) Record {
	return Record{
		Form: format.Record.Current(), Event: e, Name: "CredentialChanged", Timestamp: at.UTC(), Tenant: tenant, Actor: actor,
		RunID: run, LaneID: lane, Contract: ContractVersion, Credential: &c,
	}
}
