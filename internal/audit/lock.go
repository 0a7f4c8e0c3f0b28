package audit

import (
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// SafetyLock is the part of a record that describes the setting or the clearing of a safety lock. The record itself
// names the operator, and the lane or the tool of the lock.
type SafetyLock struct {
	Target string `json:"target"` // all, lane or tool
	Reason string `json:"reason"`
}

// LockChanged returns the record of e, [LockSet] or [LockCleared], by an actor of a tenant.
func LockChanged(e Event, tenant, actor string, q envelope.LockRequest, at time.Time) Record {
	target := "tool"
	switch {
	case q.All:
		target = "all"
	case q.Lane != "":
		target = "lane"
	}
	return Record{
		Form: format.Record.Current(), Event: e, Name: "LockChanged", Timestamp: at.UTC(), Tenant: tenant, Actor: actor,
		LaneID: q.Lane, ToolName: q.Tool, Contract: ContractVersion, Lock: &SafetyLock{target, q.Reason},
	}
}
