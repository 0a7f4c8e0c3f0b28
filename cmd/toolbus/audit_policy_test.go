package main

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// The record finds the calls that a revision decided, by its number and by each digest that the history prints.
func TestAuditByPolicy(t *testing.T) {
	s, operator := deployedWith(t, toolbus.DispatcherOptions{})
	agent := s.token(operator, "agent")
	for _, lane := range []string{"day", "night"} {
		s.must("policy", "push", policyFolder(t, lane), "--credentials", operator)
		s.awaitList([]string{"hello"}, agent...)
	}
	made := append([]string{"call", "hello", "--lane", "night", "--input", `"you"`}, agent...)
	s.must(made...)
	var all []envelope.PolicyVersion
	if err := json.Unmarshal([]byte(s.must("policy", "history", "--json", "--credentials", operator)), &all); err != nil {
		t.Fatal(err)
	}
	second, first := all[0], all[1]
	printed := strings.Fields(strings.Split(s.must("policy", "history", "--credentials", operator), "\n")[1])
	for by, runs := range map[string]bool{
		fmtRevision(second): true, fmtRevision(first): false, second.Versions.Roles: true, printed[2]: true,
		first.Versions.Roles: false,
	} {
		_, out, stderr := s.do("audit", "replay", "--policy", by, "--event", "tool_executed", "--credentials", operator)
		if strings.Contains(out, "hello") != runs {
			t.Errorf("%s: %s%s", by, out, stderr)
		}
	}
	for by, says := range map[string]string{
		"999999": "no revision 999999", "abc": "8 characters or more", "Night-Shift": "8 characters or more",
	} {
		if code, _, stderr := s.do("audit", "tail", "--policy", by, "--credentials", operator); code == 0 ||
			!strings.Contains(stderr, says) {
			t.Errorf("%s: exit %d: %s", by, code, stderr)
		}
	}
	auditor := s.token(operator, "auditor", "--role", "auditor")
	digest := append([]string{"audit", "replay", "--policy", printed[2]}, auditor...)
	if out := s.must(digest...); !strings.Contains(out, "hello") {
		t.Errorf("a digest, by an auditor: %s", out)
	}
	code, _, stderr := s.do(append([]string{"audit", "replay", "--policy", fmtRevision(second)}, auditor...)...)
	if code == 0 || !strings.Contains(stderr, "`toolbus audit replay --policy` takes the beginning of a digest") {
		t.Errorf("a revision, by an auditor: exit %d: %s", code, stderr)
	}
	id, _ := s.refusedID(append([]string{"hello", "--lane", "day", "--input", `"you"`}, agent...)...)
	said := s.must("policy", "explain", id, "--credentials", operator)
	if !strings.Contains(said, "set: roles "+printed[2]+", lanes "+printed[3]+", tool registry "+printed[4]+"\n") {
		t.Errorf("%v: %s", printed, said)
	}
}
