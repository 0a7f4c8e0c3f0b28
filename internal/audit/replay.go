package audit

import (
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
)

// Replay is the part of a record that describes the replay of a dead letter. The record itself names the new call,
// whose actor is that of the dead letter.
type Replay struct {
	By      string `json:"by"`      // tenant and actor of the operator, with a slash between them
	Letter  uint64 `json:"letter"`  // sequence of the dead letter
	Ref     string `json:"ref"`     // of the call that was given up
	Attempt int    `json:"attempt"` // of the call that was given up
}

// Replayed returns the record of the replay of a dead letter by the request req, which is sent for the actor from.
func Replayed(from call.Sender, req *envelope.Request, at time.Time, r Replay) Record {
	return Record{
		Form: format.Record.Current(), Event: DeadReplayed, Name: "DeadLetterReplayed", Timestamp: at.UTC(),
		Tenant: from.Tenant, Actor: from.Actor, RunID: req.Context.RunID, RoleID: req.Context.RoleID,
		LaneID: req.Context.LaneID, ToolName: req.ToolID, Fn: req.Fn, ToolVersion: req.ToolVersion, CallID: req.CallID,
		TraceID: req.Context.TraceID, Contract: ContractVersion, Replay: &r,
	}
}
