package audit

import (
	"time"

	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// RestoredEntry is the part of a record that describes an entry that a dispatcher has stored again from its copy.
type RestoredEntry struct {
	Stream string `json:"stream"`
	Entry  string `json:"entry"`  // subject of the entry
	Reason string `json:"reason"` // missing, or older: an older entry was in its place
}

// EntryRestored returns the record of an entry that a dispatcher has restored. id names the restore. The event is
// [PolicyApplied], which nothing else has: builds before this one would not read a new event.
func EntryRestored(tenant, dispatcher, id string, e RestoredEntry, at time.Time) Record {
	return Record{
		Form: format.Record.Current(), Event: PolicyApplied, Name: "EntryRestored", Timestamp: at.UTC(), Tenant: tenant,
		Actor: "dispatcher://" + dispatcher, EventID: GatePrefix + id, Contract: ContractVersion, Restored: &e,
	}
}
