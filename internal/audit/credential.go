package audit

import (
	"time"

	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// Credential is what is on record of a credential. The token is not.
type Credential struct {
	By     string    `json:"by"` // tenant and actor at whose word it was, with a slash between them
	Role   string    `json:"role,omitzero"`
	Family string    `json:"family,omitzero"`
	Chain  []string  `json:"chain,omitzero"` // families that it was narrowed from, the oldest first
	Scopes []string  `json:"scopes,omitzero"`
	Pool   string    `json:"pool,omitzero"`
	Until  time.Time `json:"until,omitzero"` // it may be used, and renewed
	KeyID  string    `json:"key_id,omitzero"`
}

// About returns the record of what was done with a credential of an actor.
func (c Credential) About(e Event, tenant, actor, run, lane string, at time.Time) Record {
	return Record{
		Form: format.Record.Current(), Event: e, Name: "CredentialChanged", Timestamp: at.UTC(), Tenant: tenant, Actor: actor,
		RunID: run, LaneID: lane, Contract: ContractVersion, Credential: &c,
	}
}
