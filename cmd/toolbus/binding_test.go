package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A call takes run and lane from its token or from flags, and the role from a flag. Dispatchers refuse another run than
// that of the token. The audit record contains all three.
func TestRunLaneAndRole(t *testing.T) {
	s, operator := deployed(t)
	dir := t.TempDir()
	bound, free := filepath.Join(dir, "bound"), filepath.Join(dir, "free")
	s.must("credentials", "issue", "--actor", "agent://a", "--run", "r1", "--lane", "l1", "--out", bound,
		"--credentials", operator)
	s.must("credentials", "issue", "--actor", "agent://a", "--out", free, "--credentials", operator)
	for _, c := range []struct {
		credential, flags, stdout, stderr string
		code                              int
	}{
		{bound, "", "hello you", "", 0},
		{bound, "--run r1 --lane l1 --role-id reviewer", "hello you", "", 0},
		{bound, "--run r2", "", "A-AUTH-SCOPE", exitTerminal},
		{bound, "--lane l2", "", "A-AUTH-SCOPE", exitTerminal},
		{free, "--run r7 --lane l7 --role-id writer", "hello you", "", 0},
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
		`"run_id":"r1","role_id":"","lane_id":"l1"`, `"run_id":"r1","role_id":"reviewer","lane_id":"l1"`,
		`"run_id":"r7","role_id":"writer","lane_id":"l7"`,
	} {
		if !strings.Contains(record, says) {
			t.Errorf("the record does not have %s: %s", says, record)
		}
	}
}
