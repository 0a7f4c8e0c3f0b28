package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
)

// caseWork writes a policy in which hello needs the key customer, and in its lane the key case_id.
func caseWork(t *testing.T) string {
	t.Helper()
	return policyFiles(t, map[string]string{
		"policy/roles.yaml": "roles: [{role_id: agent, allowed_lanes: [cases]}]\n",
		"policy/lanes.yaml": "lanes: [{lane_id: cases, allowed_tools: [hello], required_scope_keys: [case_id], " +
			"prohibited_flags: [force], runs: implicit}]\n",
		"tools/tool_registry.yaml": "tools: [{tool_name: hello, description: Greets., enabled: true, idempotent: true, " +
			"timeout_default_ms: 1000, allowed_lanes: [cases], required_scope_keys: [customer], prohibited_flags: []}]\n",
	})
}

// A call with --scope is allowed in a lane that requires scope keys. Without a key, the answer names it and the flag.
func TestCallScope(t *testing.T) {
	s, operator := deployedWith(t, toolbus.DispatcherOptions{})
	s.must("policy", "push", caseWork(t), "--credentials", operator)
	agent := s.token(operator, "agent")
	s.awaitList([]string{"hello"}, agent...)
	for _, c := range []struct {
		scope  []string
		code   int
		stdout string
		stderr string
	}{
		{[]string{"--scope", "case_id=77", "--scope", "customer=a=b,c"}, 0, "hello you", ""},
		{[]string{"--scope", "customer=a"}, exitTerminal, "", "context.scope needs case_id"},
		{[]string{"--scope", "case=77"}, exitTerminal, "", "context.scope needs case_id, customer"},
		{nil, exitTerminal, "", "--scope KEY=VALUE"},
	} {
		args := append([]string{"call", "hello", "--lane", "cases", "--input", `"you"`}, agent...)
		code, stdout, stderr := s.do(append(args, c.scope...)...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%v: exit %d, want %d: %s%s", c.scope, code, c.code, stdout, stderr)
		}
	}
	_, out, _ := s.do(append([]string{"call", "hello", "--lane", "cases", "--input", `"you"`, "--json"}, agent...)...)
	var r envelope.Response
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Error == nil || r.Error.Code != envelope.CodeScopeKey {
		t.Errorf("without the keys: %v: %s", err, out)
	}
	s.replayScope(operator)
}

// replayScope checks that the record lists the calls of TestCallScope by the scope keys that they needed.
func (s shell) replayScope(operator string) {
	s.t.Helper()
	replayed := func(scope ...string) (events []audit.Event) {
		args := []string{"audit", "replay", "--json", "--credentials", operator}
		for _, pair := range scope {
			args = append(args, "--scope", pair)
		}
		for line := range strings.Lines(s.must(args...)) {
			var r audit.Record
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				s.t.Fatal(err)
			}
			events = append(events, r.Event)
		}
		return events
	}
	const requested, allowed = audit.ToolRequested, audit.ToolAllowed
	const executed, denied = audit.ToolExecuted, audit.ToolDenied
	for scope, want := range map[string][]audit.Event{
		"case_id=77": {requested, allowed, executed}, "case_id=77 customer=a=b,c": {requested, allowed, executed},
		"customer=a": {denied},
		"case_id=78": nil, "case=77": nil, // of a call that was refused, but no key that it needed
	} {
		if got := replayed(strings.Fields(scope)...); !slices.Equal(got, want) {
			s.t.Errorf("%s: %v, want %v", scope, got, want)
		}
	}
}

// A scope that no call can have is refused before anything is sent, with what to write instead.
func TestCallScopeMistakes(t *testing.T) {
	s := shell{t: t, url: "nats://127.0.0.1:1"}
	var many []string
	for n := range envelope.MaxScopeKeys + 1 {
		many = append(many, "--scope", fmt.Sprintf("k%d=v", n))
	}
	for _, c := range []struct {
		scope []string
		says  string
	}{
		{[]string{"--scope", "case_id"}, "--scope case_id is not KEY=VALUE: write it as in --scope case_id=77"},
		{[]string{"--scope", "=77"}, "is not KEY=VALUE"},
		{[]string{"--scope", ""}, "is not KEY=VALUE"},
		{[]string{"--scope", "case_id="}, "--scope case_id= has no value"},
		{[]string{"--scope", "a=1", "--scope", "a=2"}, "names the key a twice"},
		{[]string{"--scope", strings.Repeat("k", envelope.MaxLabel+1) + "=1"}, "has at most 128 characters"},
		{[]string{"--scope", "k=" + strings.Repeat("ü", maxScopeValue+1)}, "a value at most 256"},
		{many, "--scope names 33 keys: a call has at most 32"},
	} {
		code, _, stderr := s.do(append([]string{"call", "hello"}, c.scope...)...)
		if code != exitUsage || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit %d, want %d with %q: %s", c.scope, code, exitUsage, c.says, stderr)
		}
	}
}
