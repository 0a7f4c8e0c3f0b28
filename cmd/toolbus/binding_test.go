package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A call takes run, lane and role from its token or from flags. Dispatchers refuse others than those of the token. The
// audit record contains all three.
func TestRunLaneAndRole(t *testing.T) {
	s, operator := deployed(t)
	s.must("policy", "push", policyFiles(t, map[string]string{
		"policy/roles.yaml": "roles: [{role_id: reviewer, allowed_lanes: [l1]}, {role_id: writer, allowed_lanes: [l7]}]\n",
		"policy/lanes.yaml": "lanes: [{lane_id: l1, allowed_tools: [hello]}, {lane_id: l7, allowed_tools: [hello]}]\n",
		"tools/tool_registry.yaml": "tools: [{tool_name: hello, description: Greets., enabled: true, idempotent: true, " +
			"timeout_default_ms: 1000, allowed_lanes: [l1, l7], required_scope_keys: [], prohibited_flags: []}]\n",
	}), "--credentials", operator)
	for _, id := range []string{"r1", "r7"} {
		s.must("runs", "start", id, "--calls-of", "agent://a", "--credentials", operator)
	}
	dir := t.TempDir()
	bound, free := filepath.Join(dir, "bound"), filepath.Join(dir, "free")
	s.must("credentials", "issue", "--actor", "agent://a", "--run", "r1", "--lane", "l1",
		"--role-id", "reviewer", "--out", bound, "--credentials", operator)
	s.must("credentials", "issue", "--actor", "agent://a", "--role-id", "writer", "--role-id", "agent", "--out", free,
		"--credentials", operator)
	for _, c := range []struct {
		credential, flags, stdout, stderr string
		code                              int
	}{
		{bound, "", "hello you", "", 0},
		{bound, "--run r1 --lane l1 --role-id reviewer", "hello you", "", 0},
		{bound, "--role-id writer", "", "A-AUTH-SCOPE", exitTerminal},
		{bound, "--run r2", "", "A-AUTH-SCOPE", exitTerminal},
		{bound, "--lane l2", "", "A-AUTH-SCOPE", exitTerminal},
		{free, "--run r7 --lane l7 --role-id writer", "hello you", "", 0},
		{free, "", "", "context.role_id is missing", exitTerminal},
		{free, "--run=", "", "--run is empty", exitUsage},
		{free, "--role-id=", "", "--role-id is empty", exitUsage},
		{free, "--run " + strings.Repeat("r", 257), "", "/context/run_id", exitInvalid},
	} {
		args := []string{"call", "hello", "--input", `"you"`, "--credentials", c.credential}
		code, stdout, stderr := s.do(append(args, strings.Fields(c.flags)...)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%s: exit %d, want %d: %s%s", c.flags, code, c.code, stdout, stderr)
		}
	}
	record := s.must("audit", "replay", "--json", "--tool", "hello", "--credentials", operator)
	for _, says := range []string{
		`"run_id":"r1","role_id":"reviewer","lane_id":"l1"`, `"run_id":"r7","role_id":"writer","lane_id":"l7"`,
	} {
		if !strings.Contains(record, says) {
			t.Errorf("the record does not have %s: %s", says, record)
		}
	}
}
