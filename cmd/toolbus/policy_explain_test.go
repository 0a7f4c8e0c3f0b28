package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// A verdict counts the steps that were not repeated.
func TestExplainVerdict(t *testing.T) {
	lacks := policy.RepeatedStep{Step: 5, Lacks: "the tools"}
	for says, steps := range map[string][]policy.RepeatedStep{
		"the same: each step ends as recorded":                  {{Step: 3}},
		"the same, as far as it was repeated: 1 step was not":   {{Step: 3}, lacks},
		"the same, as far as it was repeated: 2 steps were not": {lacks, lacks},
	} {
		e := &explained{}
		e.Steps, e.Result = steps, policy.ResultSame
		if got := e.verdict(); got != says {
			t.Errorf("%d steps: %s, want %s", len(steps), got, says)
		}
	}
}

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
	var again envelope.Response // by its key
	for range 2 {
		_, out, _ := s.do(append([]string{"call", "--json", "--key", "auto"}, call("hello", "day", `"twice"`)...)...)
		if err := json.Unmarshal([]byte(out), &again); err != nil {
			t.Fatal(err)
		}
	}
	byLane, _ := s.refusedID(call("hello", "night", `"you"`)...)
	bySchema, _ := s.refusedID(call("hello", "day", `7`)...)
	byRun, _ := s.refusedID(append(call("hello", "day", `"you"`), "--run", "nosuch")...)
	s.must("lock", "--tool", "hello", "--reason", "a test", "--credentials", operator)
	byLock, _ := s.refusedID(call("hello", "day", `"you"`)...)
	s.must("unlock", "--tool", "hello", "--reason", "a test", "--credentials", operator)
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
		"replayed":       {[]string{again.CallID}, 0, []string{"recorded: allowed", "the same"}},
		"by its outcome": {[]string{said.Provenance.AuditEventID, "--input", hello}, 0, []string{"the same"}},
		"by a lane": {[]string{byLane}, 0, []string{"denied by roles[agent].allowed_lanes (A-AUTH-LANE)",
			"the record names no build of the tool"}},
		"by a schema": {[]string{bySchema}, exitNotRepeated, []string{"recorded: step 7: denied by schema",
			"step 6: allowed", "step 7: not repeated, for lack of a rule of the policy: schema denied"}},
		"by a lock": {[]string{byLock}, exitNotRepeated, []string{"step 7: allowed",
			"step 8: not repeated, for lack of a rule of the policy: lock",
			"not repeated: the step that decided was not checked"}},
		"by a run": {[]string{byRun}, 0, []string{"run: nosuch (did not exist)",
			"step 3: denied by run (P-PRECOND-RUN_UNKNOWN)", "the same: each step ends as recorded"}},
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

// Denials by a run and by a scope key are repeated, because the record has the state of the run and the keys of the
// scope. It has no values of the scope. The call of a stranger is no segment of the run that it names.
func TestPolicyExplainRunAndScope(t *testing.T) {
	s, operator := deployedWith(t, toolbus.DispatcherOptions{})
	agent := s.token(operator, "agent")
	s.must("policy", "push", caseWork(t), "--credentials", operator)
	s.awaitList([]string{"hello"}, agent...)
	for id, actor := range map[string]string{"paused": "agent://agent", "other": "agent://other"} {
		s.must("runs", "start", id, "--calls-of", actor, "--credentials", operator)
	}
	s.must("runs", "pause", "paused", "--credentials", operator)
	const scope = "--scope case_id=case-77"
	for name, c := range map[string]struct {
		flags, why string
		code       envelope.Code
		says       []string
	}{
		"a paused run": {"--run paused " + scope, "paused (paused)", envelope.CodeRunState,
			[]string{"run: paused (paused)", "step 3: denied by run.state (P-PRECOND-RUN_STATE)"}},
		"a run of another actor": {"--run other " + scope, "of another tenant or actor", envelope.CodeRunUnknown,
			[]string{"step 3: denied by run.actors"}},
		"no such run": {"--run nosuch " + scope, "did not exist", envelope.CodeRunUnknown,
			[]string{"step 3: denied by run (P-PRECOND-RUN_UNKNOWN)"}},
		"a scope key": {scope, "implicit-", envelope.CodeScopeKey, []string{"scope keys of those required: case_id\n",
			"step 3: allowed", "step 7: denied by tools[hello].required_scope_keys (P-PRECOND-SCOPE_KEY)"}},
		"no scope": {"", "(active)", envelope.CodeScopeKey,
			[]string{"scope keys of those required: -\n", "step 7: denied by lanes[cases].required_scope_keys"}},
	} {
		id, code := s.refusedID(append(append([]string{"hello", "--lane", "cases", "--input", `"you"`}, agent...),
			strings.Fields(c.flags)...)...)
		exit, out, stderr := s.do("policy", "explain", id, "--credentials", operator)
		for _, part := range append(c.says, "the same: each step ends as recorded") {
			if code != c.code || exit != 0 || !strings.Contains(out, part) {
				t.Errorf("%s: %s, exit %d, want %q: %s%s", name, code, exit, part, out, stderr)
			}
		}
		if said := s.must("why", id, "--credentials", operator); !strings.Contains(said, c.why) {
			t.Errorf("%s: why: %s", name, said)
		}
	}
	for run, segment := range map[string]bool{"paused": true, "other": false} {
		if said := s.must("runs", "show", run, "--credentials", operator); strings.Contains(said, "denied") != segment {
			t.Errorf("a denied call is a segment of the run %s, want %t: %s", run, segment, said)
		}
	}
	record := s.must("audit", "replay", "--json", "--event", "tool_denied", "--credentials", operator)
	const hashed = `"decided_on":{"run":{"state":"active"},"scope_sha256":{"case_id":"`
	if strings.Contains(record, "case-77") || !strings.Contains(record, hashed) {
		t.Errorf("the record: %s", record)
	}
}

// coercing returns a tool of an MCP server whose inputs are coerced, and a folder with a policy that prohibits its
// flag.
func coercing(t *testing.T) (tools *toolbus.Toolset, set string) {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "servers.json"), `{"servers":{"play":{"url":"http://127.0.0.1:9/mcp"}}}`)
	writeFile(t, filepath.Join(dir, "move", "in.json"), `{"type":"object","required":["steps"],"properties":
		{"steps":{"type":"integer"},"force":{"type":"boolean"}}}`)
	writeFile(t, filepath.Join(dir, "move", "any.json"), "true")
	writeFile(t, filepath.Join(dir, "move", "tool.yaml"), `{tool_id: move, semver: 1.0.0, owner: "@test",
		description: Moves., determinism: pure, transport: mcp, endpoint: {server: play, tool: move, coerce: true},
		functions: {run: {request: in.json, response: any.json}}}`)
	tools = toolbus.NewToolset()
	if err := tools.AddFolder(dir); err != nil {
		t.Fatal(err)
	}
	return tools, policyFiles(t, map[string]string{
		"policy/roles.yaml": "roles: [{role_id: agent, allowed_lanes: [day]}]\n",
		"policy/lanes.yaml": "lanes: [{lane_id: day, allowed_tools: [move], runs: implicit}]\n",
		"tools/tool_registry.yaml": "tools: [{tool_name: move, description: Moves., enabled: true, idempotent: true, " +
			"timeout_default_ms: 1000, allowed_lanes: [day], required_scope_keys: [], prohibited_flags: [force]}]\n",
	})
}

// A decision about coerced arguments is repeated with these, although the record has the hash of those that were sent.
func TestPolicyExplainCoerced(t *testing.T) {
	tools, set := coercing(t)
	s, operator := deployedTools(t, toolbus.DispatcherOptions{}, tools)
	agent := s.token(operator, "agent")
	s.must("policy", "push", set, "--credentials", operator)
	s.awaitList([]string{"move"}, agent...)
	const denied = "step 8: denied by tools[move].prohibited_flags[force]"
	const note = "note: decided about the arguments as the tool gets them"
	for input, c := range map[string]struct {
		code  envelope.Code
		noted bool
		says  string
	}{
		`{"steps":"1","force":"true"}`:       {envelope.CodeProhibited, true, denied},
		`"{\"steps\":1,\"force\":true}"`:     {envelope.CodeProhibited, true, denied},
		`{"steps":1,"force":true}`:           {envelope.CodeProhibited, false, denied},
		`{"steps":"1","force":"false"}`:      {envelope.CodeDryRun, true, "step 8: allowed"},
		`{"steps":1,"force":false}`:          {envelope.CodeDryRun, false, "step 8: allowed"},
		`"{\"steps\":\"1\",\"force\":\"\"}"`: {envelope.CodeSchema, true, "step 6: allowed"},
	} {
		id, code := s.refusedID(append([]string{"move", "--lane", "day", "--dry-run", "--input", input}, agent...)...)
		if code != c.code {
			t.Errorf("%s: %s, want %s", input, code, c.code)
		}
		file := filepath.Join(t.TempDir(), "input.json")
		writeFile(t, file, input)
		want := 0
		if c.code != envelope.CodeProhibited {
			want = exitNotRepeated
		}
		exit, out, stderr := s.do("policy", "explain", id, "--input", file, "--credentials", operator)
		if exit != want || !strings.Contains(out, c.says) || strings.Contains(out, note) != c.noted {
			t.Errorf("%s: exit %d: %s%s", input, exit, out, stderr)
		}
	}
}
