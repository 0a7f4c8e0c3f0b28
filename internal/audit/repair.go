package audit

import (
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// Repair is the part of a record that describes the decision of an operator about a call whose log is damaged. The
// record itself names the operator, the tool and the reference of the call.
type Repair struct {
	Decision envelope.Repair `json:"decision"`
	Reason   string          `json:"reason"`
	Tenant   string          `json:"tenant"` // of the call
}

// LogRepaired returns the record of a decision by an actor of a tenant. Its event is [ApprovalGranted] if the call
// may run again, and otherwise [ApprovalDenied].
func LogRepaired(tenant, actor string, of envelope.DamagedCall, q envelope.RepairRequest, at time.Time) Record {
	e := ApprovalGranted
	if q.Decision == envelope.RepairRefuse {
		e = ApprovalDenied
	}
	return Record{
		Form: format.Record.Current(), Event: e, Name: "LogRepaired", Timestamp: at.UTC(), Tenant: tenant, Actor: actor,
		ToolName: of.Tool, Ref: q.Ref, Contract: ContractVersion, Repair: &Repair{q.Decision, q.Reason, of.Tenant},
	}
}
