package admin_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// doctor returns the checks of the holder of a token file, by name.
func (s *stage) doctor(t *testing.T, file string) map[string]admin.Check {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(text))
	p, err := auth.Inspect(token)
	if err != nil {
		t.Fatal(err)
	}
	return byName(t, admin.Diagnose(t.Context(), s.url,
		toolbus.ClientOptions{Actor: p.Actor, Token: func() string { return token }}))
}

// allowing returns a policy in which the role agent may call greet in these lanes, of which there are main and spare.
func allowing(lanes string) admin.Policy {
	return admin.Policy{
		Roles: []byte("roles: [{role_id: agent, allowed_lanes: [" + lanes + "]}]\n"),
		Lanes: []byte("lanes: [{lane_id: main, allowed_tools: [greet], runs: implicit}, " +
			"{lane_id: spare, allowed_tools: [greet], runs: implicit}]\n"),
		ToolRegistry: []byte("tools: [{tool_name: greet, description: Greets., enabled: true, idempotent: true, " +
			"timeout_default_ms: 1000, allowed_lanes: [main, spare], required_scope_keys: [], prohibited_flags: []}]\n"),
	}
}

// greetsIn calls greet as the role agent in a lane.
func greetsIn(t *testing.T, c *toolbus.Client, lane string) error {
	_, err := toolbus.Invoke[string](t.Context(), c, toolbus.Call{
		Tool: "greet", Retry: once(), Context: toolbus.RequestContext{RoleID: "agent", LaneID: lane},
	}, "Ada")
	return err
}

// On a bus without a policy calls are refused, and doctor says so. A pushed policy decides calls within a second after
// the push was acknowledged, and so does a rollback.
func TestPolicyIsPushedAndRolledBack(t *testing.T) {
	s := onStageWith(t, toolbus.DispatcherOptions{})
	operator := s.admin(t, s.operator)
	file, err := s.credentials("bob", auth.Principal{Actor: "agent://bob", Role: auth.Agent})
	if err != nil {
		t.Fatal(err)
	}
	bob, err := s.client(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bob.Close() })
	refused, ok := errors.AsType[*toolbus.Error](greetsIn(t, bob, "main"))
	if !ok || refused.Code() != envelope.CodePolicyVersion || refused.Final() ||
		!strings.Contains(refused.Reason().Fix, "toolbus policy push") {
		t.Fatalf("without a policy: %v", refused)
	}
	for who, file := range map[string]string{"an operator": s.operator, "an agent": file} {
		if c := s.doctor(t, file)["policy"]; c.Status != admin.CheckFailed || !strings.Contains(c.Fix, "policy push") {
			t.Errorf("doctor tells %s: %+v", who, c)
		}
	}
	decides := func(what string, revision uint64, err error, allowed, denied string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for since := time.Now(); ; {
			began := time.Now()
			if toolbus.CodeOf(greetsIn(t, bob, denied)) == envelope.CodeLane {
				break
			}
			if began.Sub(since) > time.Second {
				t.Fatalf("%s: lane %s is not denied after a second", what, denied)
			}
		}
		if err := greetsIn(t, bob, allowed); err != nil {
			t.Errorf("%s: lane %s: %v", what, allowed, err)
		}
		all, err := operator.PolicyHistory(t.Context())
		if err != nil || len(all) == 0 || all[0].Revision != revision || all[0].Reason != what ||
			!strings.HasPrefix(all[0].By, "default/") {
			t.Errorf("%s: the history is %+v, %v", what, all, err)
		}
	}
	first, err := operator.PushPolicy(t.Context(), allowing("main"), 0, "first")
	decides("first", first, err, "main", "spare")
	if c := s.doctor(t, s.operator)["policy"]; c.Status != admin.CheckOK {
		t.Errorf("doctor says of the first policy: %+v", c)
	}
	second, err := operator.PushPolicy(t.Context(), allowing("spare"), first, "second")
	decides("second", second, err, "spare", "main")
	third, err := operator.RollbackPolicy(t.Context(), first, "third")
	decides(fmt.Sprintf("rollback to revision %d: third", first), third, err, "main", "spare")
	all, err := operator.PolicyHistory(t.Context())
	if err != nil || len(all) != 3 || all[0].Versions != all[2].Versions {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []admin.Policy{allowing("main"), allowing("spare")} {
		if p, err := operator.Policy(t.Context(), all[i]); err != nil || string(p.Roles) != string(want.Roles) {
			t.Errorf("documents of revision %d: %s, %v", all[i].Revision, p.Roles, err)
		}
	}
	pushed := 0
	for r, err := range operator.AuditRecords(t.Context(), admin.AuditFilter{Event: "policy_pushed"}) {
		if r.Act == "intended" {
			continue
		}
		if err != nil || !strings.Contains(string(r.JSON), all[2-pushed].Versions.Roles) {
			t.Errorf("%s, %v", r.JSON, err)
		}
		pushed++
	}
	if pushed != 3 {
		t.Errorf("%d pushes are recorded", pushed)
	}
}

// What cannot be pushed is refused as a whole, and only operators push.
func TestPolicyIsRefused(t *testing.T) {
	s := onStageWith(t, toolbus.DispatcherOptions{})
	operator := s.admin(t, s.operator)
	first, err := operator.PushPolicy(t.Context(), allowing("main"), 0, "")
	if err != nil {
		t.Fatal(err)
	}
	_, err = operator.PushPolicy(t.Context(), allowing("nowhere"), first, "")
	refusal(t, "a lane that does not exist", err, envelope.CodeMalformed)
	_, err = operator.PushPolicy(t.Context(), allowing("spare"), 0, "")
	refusal(t, "another revision is in force", err, envelope.CodePolicyVersion)
	_, err = operator.PushPolicy(t.Context(), allowing("spare"), first, strings.Repeat("x", 1001))
	refusal(t, "a long reason", err, envelope.CodeMalformed)
	_, err = operator.RollbackPolicy(t.Context(), first+10, "")
	refusal(t, "a revision that does not exist", err, envelope.CodeNotFound)
	if all, err := operator.PolicyHistory(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("the history is %+v, %v", all, err)
	}
	file, err := s.credentials("eve", auth.Principal{Actor: "agent://eve", Role: auth.Agent})
	if err != nil {
		t.Fatal(err)
	}
	eve := s.admin(t, file)
	_, err = eve.PushPolicy(t.Context(), allowing("spare"), first, "")
	refusal(t, "a push by an agent", err, envelope.CodeForbidden)
	_, err = eve.PolicyHistory(t.Context())
	refusal(t, "the history for an agent", err, envelope.CodeForbidden)
}
