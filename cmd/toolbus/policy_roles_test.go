package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// Commands warn of roles that the policy does not have: of a new credential, and those that a push takes from issued
// ones. They are not refused.
func TestRolesWithoutPolicy(t *testing.T) {
	s, operator := deployedWith(t, toolbus.DispatcherOptions{})
	warns := func(args []string, says string) {
		t.Helper()
		code, _, stderr := s.do(append(args, "--credentials", operator)...)
		if code != 0 || says == "" && strings.Contains(stderr, "warning") || !strings.Contains(stderr, says) {
			t.Errorf("%v: exit %d, want %q: %s", args, code, says, stderr)
		}
	}
	issue := func(name string, roles ...string) []string {
		args := []string{"credentials", "issue", "--actor", "agent://" + name, "--out", filepath.Join(t.TempDir(), name)}
		for _, role := range roles {
			args = append(args, "--role-id", role)
		}
		return args
	}
	const entry = "{tool_name: %s, description: Greets., enabled: true, idempotent: true, timeout_default_ms: 1000, " +
		"allowed_lanes: [day], required_scope_keys: [], prohibited_flags: []}"
	folder := func(roles string, tools ...string) string {
		if tools == nil {
			tools = []string{"hello", "wait"}
		}
		var entries []string
		for _, tool := range tools {
			entries = append(entries, fmt.Sprintf(entry, tool))
		}
		return policyFiles(t, map[string]string{
			"policy/roles.yaml":        "roles: [" + roles + "]\n",
			"policy/lanes.yaml":        "lanes: [{lane_id: day, allowed_tools: ['*'], runs: implicit}]\n",
			"tools/tool_registry.yaml": "tools: [" + strings.Join(entries, ", ") + "]\n",
		})
	}
	const agent, writer = "{role_id: agent, allowed_lanes: [day]}", "{role_id: writer, allowed_lanes: [day]}"
	executor := func(pool string) []string {
		return append(issue("e-"+pool), "--role", "executor", "--pool", pool)
	}
	warns(issue("early", "writer"), "") // no policy can be read
	warns(issue("plain"), "")
	warns([]string{"policy", "push", folder(writer)},
		"no role agent, which 1 issued credential has: agent://plain; without --role-id a credential has the role agent")
	warns(issue("later"), "has no role agent: calls with it are refused until a policy has it; without --role-id ")
	warns(executor("default"), "")
	warns(executor("defualt"), `no tool of the bus runs in the pool defualt: did you mean "default"?`)
	warns([]string{"policy", "push", folder(agent + ", " + writer)}, "")
	warns(issue("desk", "agent", "writer"), "")
	warns(append(issue("night"), "--lane", "daay"), `has no lane daay: did you mean "day"?`)
	warns(append(issue("bright"), "--lane", "day"), "")
	warns(issue("typo", "wirter", "agent"), "has no role wirter: calls with it are refused")
	warns([]string{"policy", "push", folder(agent)}, "no role writer, which 2 issued credentials have: ")
	warns([]string{"policy", "push", folder(agent + ", " + writer)}, "")
	all := history(t, s, operator)
	warns([]string{"policy", "rollback", fmtRevision(all[1])}, "no role writer, which 2 issued credentials have: ")
	other := folder(agent, "wait", "later")
	warns([]string{"policy", "push", other}, "no entry for 1 tool of the bus, so nobody can call it: hello\n")
	warns([]string{"policy", "rollback", fmtRevision(all[1])}, "")
	warns([]string{"policy", "push", other}, "1 entry of the new set has no tool: the dispatchers have no later\n")
}

// history returns the versions of the policy.
func history(t *testing.T, s shell, operator string) (all []envelope.PolicyVersion) {
	t.Helper()
	out := s.must("policy", "history", "--json", "--credentials", operator)
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) < 2 {
		t.Fatalf("%v: %s", err, out)
	}
	return all
}

// The reason of a revocation is on record.
func TestRevokeReason(t *testing.T) {
	s, operator := deployed(t)
	agent := filepath.Join(t.TempDir(), "agent")
	s.must("credentials", "issue", "--actor", "agent://a", "--out", agent, "--credentials", operator)
	s.must("credentials", "revoke", agent, "--reason", "agent a has left, see INC-7", "--credentials", operator)
	said := s.must("audit", "replay", "--event", "credential_revoked", "--credentials", operator)
	said = strings.Join(strings.Fields(said), " ")
	if strings.Count(said, "reason: agent a has left, see INC-7") != 2 { // intent and result
		t.Error(said)
	}
	code, _, stderr := s.do("credentials", "revoke", agent, "--reason", strings.Repeat("r", 1001),
		"--credentials", operator)
	if code != exitInvalid || !strings.Contains(stderr, "1000 bytes") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// An executor with a token that is not for it says which one it needs, and how to issue it.
func TestExecutorWithOtherToken(t *testing.T) {
	s, operator := deployed(t)
	gpu := filepath.Join(t.TempDir(), "gpu")
	s.must("credentials", "issue", "--role", "executor", "--pool", "gpu", "--actor", "executor://gpu", "--out", gpu,
		"--credentials", operator)
	for credential, is := range map[string]string{operator: "the role operator", gpu: "an executor of pool gpu"} {
		code, _, stderr := s.do("executor", "--tools", t.TempDir(), "--credentials", credential)
		if code != 1 || !strings.Contains(stderr, is+", and this executor needs one of the role executor for pool default") ||
			!strings.Contains(stderr, "credentials issue --role executor") || strings.Contains(stderr, "keys servers") {
			t.Errorf("%s: exit %d: %s", is, code, stderr)
		}
	}
}

// Commands that an executor may not use say whose token it is, and doctor does.
func TestCommandsWithExecutorToken(t *testing.T) {
	s, operator := deployed(t)
	executor := filepath.Join(filepath.Dir(operator), "executor.token")
	for command, want := range map[string]int{"doctor": 1, "audit replay": exitUsage, "call hello": exitUsage} {
		code, stdout, stderr := s.do(append(strings.Fields(command), "--credentials", executor)...)
		said := stdout + stderr
		if code != want || !strings.Contains(said, "of the executor executor://x") || !strings.Contains(said, "operator") ||
			strings.Contains(said, "Violation") || strings.Contains(said, "tb.svc.") {
			t.Errorf("%s: exit %d: %s", command, code, said)
		}
	}
}

// An agent who may not read the record learns who may, and what an agent can ask.
func TestRecordWithAgentToken(t *testing.T) {
	s, operator := deployed(t)
	agent := s.token(operator, "agent")
	for command, what := range map[string]string{
		"audit replay": "the audit record and the dead letters", "dead list": "the audit record and the dead letters",
		"policy explain hello.x": "the audit record and the dead letters", "runs show nightly": "the operation run_show",
	} {
		code, stdout, stderr := s.do(append(strings.Fields(command), agent...)...)
		for _, part := range []string{what + ": not for the role agent", "operator: `toolbus credentials issue --role ",
			"about its own calls an agent asks with `toolbus calls list --open` and `toolbus why REF`"} {
			if code != exitTerminal || !strings.Contains(stderr, part) {
				t.Errorf("%s: exit %d, want %q: %s%s", command, code, part, stdout, stderr)
			}
		}
	}
	_, _, stderr := s.do(append([]string{"policy", "history"}, agent...)...)
	if strings.Contains(stderr, "about its own calls") || !strings.Contains(stderr, "of the role operator") {
		t.Error(stderr)
	}
}
