package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// The set that a record names decides a call again as it did, also when another one is in force. A set that does not is
// noticed, and what the record lacks is named.
func TestPolicyExplain(t *testing.T) {
	s, operator := deployedWith(t, toolbus.DispatcherOptions{})
	agent := s.token(operator, "agent")
	call := func(tool, lane, input string) []string {
		return append([]string{tool, "--lane", lane, "--input", input, "--attempts", "1"}, agent...)
	}
	made := func() (r envelope.Response) {
		_, out, _ := s.do(append([]string{"call", "--json"}, call("hello", "day", `"you"`)...)...)
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	before := made()
	s.must("policy", "push", shifts(t, "day"), "--credentials", operator)
	s.awaitList([]string{"hello"}, agent...)
	said := made()
	byLane, _ := s.refusedID(call("hello", "night", `"you"`)...)
	bySchema, _ := s.refusedID(call("hello", "day", `7`)...)
	byRun, _ := s.refusedID(append(call("hello", "day", `"you"`), "--run", "nosuch")...)
	s.must("policy", "push", shifts(t, "night"), "--credentials", operator)
	dir := t.TempDir()
	hello, other := filepath.Join(dir, "hello.json"), filepath.Join(dir, "other.json")
	writeFile(t, hello, " \"you\" ")
	writeFile(t, other, "{}")
	for name, c := range map[string]struct {
		args []string
		code int
		says []string
	}{
		"allowed": {[]string{said.CallID}, 0, []string{"recorded: allowed", "step 3: not repeated", "step 5: allowed",
			"step 8: allowed", "the same"}},
		"by its outcome": {[]string{said.Provenance.AuditEventID, "--input", hello}, 0, []string{"the same"}},
		"by a lane": {[]string{byLane}, 0, []string{"denied by roles[agent].allowed_lanes (A-AUTH-LANE)",
			"the record names no build of the tool"}},
		"by a schema": {[]string{bySchema}, 0, []string{"recorded: step 7: denied by schema", "step 6: allowed"}},
		"by a run": {[]string{byRun}, exitNotRepeated, []string{"step 3: not repeated, for lack of the run as it was",
			"not repeated: the step that decided was not checked"}},
		"without a policy": {[]string{before.CallID}, exitNotRepeated, []string{"the record names no policy"}},
		"other input":      {[]string{said.CallID, "--input", other}, exitUsage, []string{"not the input of the call"}},
		"no record":        {[]string{"gate.x.1"}, exitTerminal, []string{"no decision about gate.x.1"}},
	} {
		args := append([]string{"policy", "explain", "--credentials", operator}, c.args...)
		code, out, stderr := s.do(args...)
		for _, part := range c.says {
			if code != c.code || !strings.Contains(out+stderr, part) {
				t.Errorf("%s: exit %d, want %d with %q: %s%s", name, code, c.code, part, out, stderr)
			}
		}
	}
}
