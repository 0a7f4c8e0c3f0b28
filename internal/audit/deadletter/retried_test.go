package deadletter

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
)

// The outcome of a retry comes from its end, or from the outcome that it got of another call, in records of both forms.
// That a call was allowed, joined or approved is no outcome.
func TestBecameInBothForms(t *testing.T) {
	for name, c := range map[string]struct {
		form  int
		event audit.Event
		want  string
	}{
		"executed":         {3, audit.ToolExecuted, "success"},
		"replayed, form 3": {3, audit.ToolAllowed, "success"},
		"replayed, form 4": {4, audit.ToolReplayed, "success"},
		"allowed, form 4":  {4, audit.ToolAllowed, "open"},
		"approved, form 4": {4, audit.ApprovalGranted, "open"},
		"late, form 4":     {4, audit.LateResult, "open"},
	} {
		r := replays{
			found: map[uint64][]*Retry{}, refs: map[string]*Retry{}, calls: map[string]*Retry{},
			numbers: map[attempt]uint64{{"echo.lost", 1}: 7},
		}
		r.see(audit.Record{
			Form: c.form, Event: audit.DeadReplayed, Ref: "echo.again", CallID: "c",
			Replay: &audit.Replay{By: "t/operator", Letter: 7, Ref: "echo.lost", Attempt: 1},
		})
		r.see(audit.Record{Form: c.form, Event: c.event, CallID: "c", Status: envelope.Success})
		if len(r.found[7]) != 1 || r.found[7][0].Became() != c.want {
			t.Errorf("%s: %+v", name, r.found[7])
		}
	}
}
