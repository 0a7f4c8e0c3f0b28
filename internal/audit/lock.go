package audit

import (
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// SafetyLock is the part of a record that describes the setting or the clearing of a safety lock, or the lock that has
// denied a call. The record itself names the operator who sets or clears it, and the lane or the tool of the lock.
type SafetyLock struct {
	Target string `json:"target"` // all, lane or tool
	Reason string `json:"reason"`
	By     string `json:"by,omitzero"` // with a denied call: tenant and actor of the operator who has set the lock
}

// LockInForce returns l for the record of a call that it denies.
func LockInForce(l envelope.Lock) *SafetyLock {
	return &SafetyLock{targetOf(l.LockTarget), l.Reason, l.By}
}

func targetOf(t envelope.LockTarget) string {
	switch {
	case t.All:
		return "all"
	case t.Lane != "":
		return "lane"
	}
	return "tool"
}

// LockChanged returns the record of e, [LockSet] or [LockCleared], by an actor of a tenant.
func LockChanged(e Event, tenant, actor string, q envelope.LockRequest, at time.Time) Record {
	return Record{
		Form: format.Record.Current(), Event: e, Name: "LockChanged", Timestamp: at.UTC(), Tenant: tenant, Actor: actor,
		LaneID: q.Lane, ToolName: q.Tool, Contract: ContractVersion,
		Lock: &SafetyLock{Target: targetOf(q.LockTarget), Reason: q.Reason},
	}
}

// LockedBy says which safety lock has denied the call of the record: on what, who has set it and why. It returns "" if
// none did, or the record does not say.
func (r *Record) LockedBy() string {
	if r.Lock == nil || r.Event != ToolDenied || r.Act != nil {
		return ""
	}
	on := "all calls"
	switch r.Lock.Target {
	case "lane":
		on = "the lane " + r.LaneID
	case "tool":
		on = "the tool " + r.ToolName
	}
	return fmt.Sprintf("lock of %s by %s: %s", on, r.Lock.By, r.Lock.Reason)
}
