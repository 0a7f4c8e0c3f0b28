package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// policyFolder writes a policy in which the role agent may call hello in one lane.
func policyFolder(t *testing.T, lane string) string {
	t.Helper()
	return policyFiles(t, map[string]string{
		"policy/roles.yaml": "roles: [{role_id: agent, allowed_lanes: [" + lane + "]}]\n",
		"policy/lanes.yaml": "lanes: [{lane_id: day, allowed_tools: [hello], runs: implicit}, " +
			"{lane_id: night, allowed_tools: [hello], runs: implicit}]\n",
		"tools/tool_registry.yaml": "tools: [{tool_name: hello, description: Greets., enabled: true, idempotent: true, " +
			"timeout_default_ms: 1000, allowed_lanes: [day, night], required_scope_keys: [], prohibited_flags: []}]\n",
	})
}

// allowAs pushes a policy in which a role may call play in a lane.
func (s shell) allowAs(role, lane string) {
	s.t.Helper()
	dir := policyFiles(s.t, map[string]string{
		"policy/roles.yaml": "roles: [{role_id: " + role + ", allowed_lanes: [" + lane + "]}]\n",
		"policy/lanes.yaml": "lanes: [{lane_id: " + lane + ", allowed_tools: [play], write: true, runs: implicit}]\n",
		"tools/tool_registry.yaml": "tools: [{tool_name: play, description: Plays., enabled: true, idempotent: true, " +
			"timeout_default_ms: 20000, allowed_lanes: [" + lane + "], required_scope_keys: [], prohibited_flags: [], " +
			"write_targets: ['*']}]\n",
	})
	s.must("policy", "push", dir)
}

// policyFiles writes the documents of a policy.
func policyFiles(t *testing.T, documents map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range documents {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// An operator pushes policies, sees their history and documents, and rolls back.
func TestPolicyOnABus(t *testing.T) {
	s, operator := deployedWith(t, toolbus.DispatcherOptions{})
	as := func(line ...string) []string {
		return append(append([]string{"policy"}, line...), "--credentials", operator)
	}
	history := func() (all []envelope.PolicyVersion) {
		t.Helper()
		if err := json.Unmarshal([]byte(s.must(append(as("history"), "--json")...)), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := history(); len(all) != 0 {
		t.Errorf("before the first push: %+v", all)
	}
	if code, _, stderr := s.do(as("show")...); code != 1 || !strings.Contains(stderr, "toolbus policy push") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	day, night := policyFolder(t, "day"), policyFolder(t, "night")
	if said := s.must(as("push", day, "--reason", "by day")...); !strings.HasSuffix(said,
		"is in force; all dispatchers decide by it within a second\n") {
		t.Error(said)
	}
	if said := s.must(as("push", day)...); !strings.Contains(said, "nothing is pushed") {
		t.Error(said)
	}
	if code, _, stderr := s.do(as("push", night)...); code != 0 || strings.Contains(stderr, "active run") {
		t.Errorf("without runs: exit %d: %s", code, stderr)
	}
	all := history()
	if len(all) != 2 || all[1].Reason != "by day" || all[0].Revision <= all[1].Revision {
		t.Fatalf("%+v", all)
	}
	first := strings.TrimSpace(strings.Fields(s.must(as("history")...))[0])
	if first != "REVISION" {
		t.Errorf("the table begins with %s", first)
	}
	s.must(as("rollback", fmtRevision(all[1]), "--reason", "too dark")...)
	because := "rollback to revision " + fmtRevision(all[1]) + ": too dark"
	if now := history()[0].Reason; now != because {
		t.Errorf("the reason of the rollback is %q", now)
	}
	if said := s.must(as("rollback", fmtRevision(all[1]), "--reason", "too dark")...); !strings.Contains(said,
		", which revision "+fmtRevision(history()[1])+" had already; ") {
		t.Error(said)
	}
	said := s.must("audit", "replay", "--event", "policy_pushed", "--last", "1", "--credentials", operator)
	if !strings.Contains(strings.Join(strings.Fields(said), " "), "reason: "+because) {
		t.Error(said)
	}
	for _, args := range [][]string{{"show"}, {"show", fmtRevision(all[1])}} {
		if said := s.must(as(args...)...); !strings.Contains(said, "allowed_lanes: [day]") ||
			!strings.Contains(said, "policy/lanes.yaml, sha256 ") {
			t.Errorf("%v: %s", args, said)
		}
	}
	for _, c := range []struct {
		line []string
		code int
		says string
	}{
		{[]string{"push", t.TempDir()}, exitUsage, "policy/roles.yaml"},
		{[]string{"push", "./nodir"}, exitUsage, "the folder ./nodir does not exist"},
		{[]string{"push", policyFolder(t, "evening")}, exitInvalid, `no lane "evening"`},
		{[]string{"push", night, "--expect", "1"}, exitTerminal,
			"another policy was pushed meanwhile: revision 1 was expected, and revision "},
		{[]string{"rollback", "999999"}, exitTerminal, "no revision 999999"},
		{[]string{"show", "999999"}, exitTerminal, "no revision 999999"},
		{[]string{"show", "newest"}, exitUsage, "policy history"},
		{[]string{"rollback", "0"}, exitUsage, "policy history"},
	} {
		if code, _, stderr := s.do(as(c.line...)...); code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit %d, want %d: %s", c.line, code, c.code, stderr)
		}
	}
}

// If the documents of the set in force were lost, the same set is pushed again.
func TestPolicyPushAfterLoss(t *testing.T) {
	s, operator := deployedWith(t, toolbus.DispatcherOptions{})
	push := []string{"policy", "push", policyFolder(t, "day"), "--credentials", operator}
	s.must(push...)
	bucket, err := s.insider().JS.KeyValue(t.Context(), subjects.PolicyBucket)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := bucket.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if _, document := subjects.ParsePolicyPart(key); document {
			if err := bucket.Delete(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, says := range []string{"is in force", "nothing is pushed"} {
		if said := s.must(push...); !strings.Contains(said, says) {
			t.Errorf("%s, want %q", said, says)
		}
	}
	s.must("policy", "show", "--credentials", operator)
}

func fmtRevision(v envelope.PolicyVersion) string { return strconv.FormatUint(v.Revision, 10) }

// Without a folder, init writes a set for the tools of the bus, which can be pushed as it is.
func TestPolicyInitOfBus(t *testing.T) {
	s, operator := deployed(t)
	t.Chdir(t.TempDir())
	s.must("policy", "init", "--credentials", operator)
	s.must("policy", "push", ".", "--credentials", operator)
	agent := s.token(operator, "agent")
	if said := s.must(append([]string{"call", "hello", "--input", `"you"`}, agent...)...); !strings.Contains(said, "you") {
		t.Error(said)
	}
	var shown shownPolicy
	if err := json.Unmarshal([]byte(s.must("policy", "show", "--json", "--credentials", operator)), &shown); err != nil {
		t.Fatal(err)
	}
	for _, entry := range []string{"tool_name: \"hello\"", "tool_name: \"wait\"", "timeout_default_ms: 60000"} {
		if !strings.Contains(shown.ToolRegistry, entry) {
			t.Errorf("no %s in\n%s", entry, shown.ToolRegistry)
		}
	}
	t.Chdir(t.TempDir())
	if code, _, stderr := s.do(append([]string{"policy", "init"}, agent...)...); code != exitTerminal ||
		!strings.Contains(stderr, string(envelope.CodeForbidden)) {
		t.Errorf("an agent's token: %s", stderr)
	}
}
