package admin_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
)

// Each act of an operator has its intent on record, and then its result, which names the intent. A refused act is a
// refusal that says what was refused. One that changes nothing is not on record.
func TestActsAreRecorded(t *testing.T) {
	s := onStageWith(t, toolbus.DispatcherOptions{})
	operator, ctx := s.admin(t, s.operator), t.Context()
	_, err := operator.PushPolicy(ctx, allowing("main"), 0, "first")
	if err != nil {
		t.Fatal(err)
	}
	_, err = operator.PushPolicy(ctx, allowing("spare"), 0, "late")
	refusal(t, "another revision is in force", err, envelope.CodePolicyVersion)
	all := envelope.LockRequest{LockTarget: envelope.LockTarget{All: true}, Reason: "INC-7"}
	for range 2 { // the second one changes nothing
		if _, err = operator.Lock(ctx, all); err != nil {
			t.Fatal(err)
		}
	}
	if _, err = operator.Unlock(ctx, all); err != nil {
		t.Fatal(err)
	}
	run := envelope.RunStartRequest{ID: "run-1", Tenant: "default", Actors: []string{"agent://a"}, Role: "agent"}
	if _, err = operator.StartRun(ctx, run); err != nil {
		t.Fatal(err)
	}
	closed := envelope.RunChangeRequest{ID: "run-1", Tenant: "default", State: "closed"}
	if _, err = operator.ChangeRun(ctx, closed); err != nil {
		t.Fatal(err)
	}
	closed.State = "active"
	_, err = operator.ChangeRun(ctx, closed)
	refusal(t, "a closed run", err, envelope.CodeRunState)
	if _, err = operator.RevokeTokens(ctx, admin.RevokeRequest{Family: "family"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	intents := map[string]bool{"": true}
	for r, err := range operator.AuditRecords(ctx, admin.AuditFilter{}) {
		var stored audit.Record
		if err != nil || json.Unmarshal(r.JSON, &stored) != nil {
			t.Fatalf("%s, %v", r.JSON, err)
		}
		a := stored.Act
		if a == nil {
			continue
		}
		got = append(got, fmt.Sprintf("%s %s %s %s", a.Op, a.State, stored.Event, stored.Code))
		if intents[stored.EventID] = a.State == audit.ActIntended; !intents[a.Intent] || a.State == audit.ActDone &&
			a.Intent == "" {
			t.Errorf("%s of the intent %q", a.State, a.Intent)
		}
		if a.State == audit.ActRefused && a.Op == "policy_push" && (stored.Push == nil || stored.Policies.Roles == "") {
			t.Errorf("the refusal does not say what was refused: %s", r.JSON)
		}
	}
	want := []string{
		"policy_push intended policy_pushed ", "policy_push done policy_pushed ",
		"policy_push refused tool_denied P-PRECOND-POLICY_VERSION",
		"lock intended lock_set ", "lock done lock_set ", "unlock intended lock_cleared ", "unlock done lock_cleared ",
		"run_start intended run_started ", "run_start done run_started ",
		"run_change intended run_closed ", "run_change done run_closed ",
		"run_change refused tool_denied P-PRECOND-RUN_STATE",
		"token_revoke intended credential_revoked ", "token_revoke done credential_revoked ",
	}
	got = slices.DeleteFunc(got, func(line string) bool { return line[:11] == "token_issue" })
	if !slices.Equal(got, want) {
		t.Errorf("on record:\n%q, want\n%q", got, want)
	}
}
