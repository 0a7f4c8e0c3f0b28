package deadletter

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
)

// The outcome of a retry comes from its end, or from the outcome that it got of another call.
// That a call was allowed, joined or approved is no outcome.
func TestBecame(t *testing.T) {
	for name, c := range map[string]struct {
		event audit.Event
		want  string
	}{
		"executed": {audit.ToolExecuted, "success"},
		"replayed": {audit.ToolReplayed, "success"},
		"allowed":  {audit.ToolAllowed, "open"},
		"approved": {audit.ApprovalGranted, "open"},
		"late":     {audit.LateResult, "open"},
	} {
		r := replays{
			found: map[uint64][]*Retry{}, refs: map[string]*Retry{}, calls: map[string]*Retry{},
			numbers: map[attempt]uint64{{"echo.lost", 1}: 7},
		}
		r.see(audit.Record{
			Event: audit.DeadReplayed, Ref: "echo.again", CallID: "c",
			Replay: &audit.Replay{By: "t/operator", Letter: 7, Ref: "echo.lost", Attempt: 1},
		})
		r.see(audit.Record{Event: c.event, CallID: "c", Status: envelope.Success})
		if len(r.found[7]) != 1 || r.found[7][0].Became() != c.want {
			t.Errorf("%s: %+v", name, r.found[7])
		}
	}
}
