package main

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// refusedID makes a call that is denied, and returns the id of its record.
func (s shell) refusedID(args ...string) (id string, code envelope.Code) {
	s.t.Helper()
	_, out, stderr := s.do(append([]string{"call", "--json", "--attempts", "1"}, args...)...)
	var r envelope.Response
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Error == nil || r.Provenance.AuditEventID == "" {
		s.t.Fatalf("not denied: %v: %s%s", err, out, stderr)
	}
	return r.Provenance.AuditEventID, r.Error.Code
}

// The id of a denial tells operators the step, the rule and the policy, with the true reason. The caller does not learn
// it.
func TestWhyDenied(t *testing.T) {
	s, operator := deployed(t)
	folder := shifts(t, "day")
	s.must("policy", "push", folder, "--credentials", operator)
	agent := s.token(operator, "agent")
	s.awaitList([]string{"hello"}, agent...)
	begun := time.Now()
	id, code := s.refusedID(append([]string{"wait", "--lane", "day", "--input", "{}"}, agent...)...)
	if code != envelope.CodeToolUnknown {
		t.Fatalf("the caller was told %s", code)
	}
	_, _, stderr := s.do(append([]string{"call", "wait", "--lane", "day", "--input", "{}"}, agent...)...)
	if !strings.Contains(stderr, "record gate.") {
		t.Errorf("call prints no id: %s", stderr)
	}
	var d denied
	out := s.must("why", id, "--json", "--credentials", operator)
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	documents, err := policyFolders{set: folder}.parse()
	if err != nil {
		t.Fatal(err)
	}
	if d.Step != policy.StepPermit || d.Rule != "lanes[day].allowed_tools" || d.Code != envelope.CodeToolInLane ||
		d.Policies != documents.Versions() || d.Actor != "agent://agent" || d.Tool != "wait" || d.LaneID != "day" ||
		d.RoleID != "agent" || d.EventID != id || d.Time.Before(begun.Add(-time.Minute)) {
		t.Errorf("%+v", d)
	}
	text := s.must("why", id, "--credentials", operator)
	for _, part := range []string{"\n  fix: " + envelope.Lookup(envelope.CodeToolInLane).Fix + "\n", d.Sentence,
		"lanes[day].allowed_tools", d.Policies.Roles[:12] + "\n", d.Policies.ToolRegistry[:12] + "\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %s", part, text)
		}
	}
	if code, out, stderr := s.do(append([]string{"why", id}, agent...)...); code == 0 || strings.Contains(out, "day") ||
		!strings.Contains(stderr, "give the id to an operator or auditor") || !strings.Contains(stderr, "toolbus why "+id) {
		t.Errorf("the caller learns: exit %d: %s%s", code, out, stderr)
	}
	if code, _, stderr := s.do("why", "gate.x.1", "--credentials", operator); code == 0 ||
		!strings.Contains(stderr, "no denial gate.x.1") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// The fix of a record does not point at violations that the record lacks.
func TestFixOfRecord(t *testing.T) {
	for _, row := range envelope.Codes() {
		fix := fixOfRecord(row.Code)
		if strings.Contains(fix, "details.violations") && row.Status == envelope.InvalidRequest &&
			!strings.Contains(fix, "details.violations of the answer") {
			t.Errorf("%s: %s", row.Code, fix)
		}
	}
}
