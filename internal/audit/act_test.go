package audit_test

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// TestRefusedAct: the refusal of an operation says what its intent says, except for the run, and names the intent. If
// the store did not answer after the intent, nobody knows whether the operation has acted.
func TestRefusedAct(t *testing.T) {
	intent := audit.LockChanged(audit.LockSet, "t", "operator", envelope.LockRequest{
		LockTarget: envelope.LockTarget{Tool: "echo"}, Reason: "INC-7",
	}, at)
	intent.RunID, intent.EventID, intent.Act = "run", "gate.1", &audit.Act{Op: "lock", State: audit.ActIntended}
	none := intent
	none.EventID = ""
	for _, c := range []struct {
		of   audit.Record
		code envelope.Code
		want audit.ActState
	}{
		{intent, envelope.CodePolicyVersion, audit.ActRefused}, {none, envelope.CodePolicyVersion, audit.ActRefused},
		{intent, envelope.CodeUnavailable, audit.ActUnknown},
	} {
		r := audit.Denied(audit.Refusal{
			In: &call.IncomingRequest{From: call.Sender{Tenant: "t", Actor: "operator"}}, Error: envelope.NewError(c.code, ""),
			Of: &c.of,
		}, at)
		if r.Event != audit.ToolDenied || r.Code != c.code || r.Actor != "operator" || r.ToolName != "echo" ||
			r.RunID != "" || r.Lock == nil || *r.Act != (audit.Act{Op: "lock", State: c.want, Intent: c.of.EventID}) {
			t.Errorf("%s: %+v, %+v", c.code, r, r.Act)
		}
	}
	done := intent.Done(at.Add(1))
	if done.Event != audit.LockSet || done.EventID != "" || *done.Act != (audit.Act{Op: "lock", State: audit.ActDone,
		Intent: "gate.1"}) || intent.Act.State != audit.ActIntended || !done.Timestamp.After(intent.Timestamp) {
		t.Errorf("done: %+v, %+v", done, done.Act)
	}
}
