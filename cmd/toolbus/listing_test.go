package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// shifts writes a policy in which the role agent may call hello by day, and the role reader wait by night. agents are
// the lanes of agent.
func shifts(t *testing.T, agents string) string {
	t.Helper()
	dir := t.TempDir()
	entry := func(id string) string {
		return "  - {tool_name: " + id + ", description: d, enabled: true, idempotent: true, timeout_default_ms: 60000, " +
			"allowed_lanes: [day, night], required_scope_keys: [], prohibited_flags: []}\n"
	}
	writeFile(t, filepath.Join(dir, policy.RolesFile), "roles: [{role_id: agent, allowed_lanes: ["+agents+
		"]}, {role_id: reader, allowed_lanes: [night]}]\n")
	writeFile(t, filepath.Join(dir, policy.LanesFile),
		"lanes: [{lane_id: day, allowed_tools: [hello], runs: implicit}, "+
			"{lane_id: night, allowed_tools: [wait], runs: implicit}]\n")
	writeFile(t, filepath.Join(dir, policy.ToolRegistryFile), "tools:\n"+entry("hello")+entry("wait"))
	return dir
}

// listed returns the ids that `toolbus tools list` prints.
func (s shell) listed(args ...string) (ids []string) {
	s.t.Helper()
	var tools []envelope.ToolInfo
	out := s.must(append([]string{"tools", "list", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &tools); err != nil {
		s.t.Fatal(err)
	}
	for _, one := range tools {
		ids = append(ids, one.ToolID)
	}
	return ids
}

// token issues a credential for agent://NAME and returns the flags of a command with it.
func (s shell) token(operator, name string, args ...string) []string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), name)
	s.must(append([]string{"credentials", "issue", "--actor", "agent://" + name, "--out", file,
		"--credentials", operator}, args...)...)
	return []string{"--credentials", file}
}

// A caller lists and describes the tools that its roles and its lane could have a call of, and operators all of them.
// For the others there is the answer for a tool that does not exist. Another policy shows in the next list.
func TestListings(t *testing.T) {
	s, operator := deployed(t)
	s.must("policy", "push", shifts(t, "day"), "--credentials", operator)
	token := func(name string, args ...string) []string { return s.token(operator, name, args...) }
	agent := token("agent")
	s.awaitList([]string{"hello"}, agent...)
	both := token("both", "--role-id", "agent", "--role-id", "reader")
	for name, c := range map[string]struct{ args, want []string }{
		"no role":   {agent, []string{"hello"}},
		"one role":  {token("reader", "--role-id", "reader"), []string{"wait"}},
		"two roles": {both, []string{"hello", "wait"}},
		"one named": {append([]string{"--role-id", "reader"}, both...), []string{"wait"}},
		"not its":   {append([]string{"--role-id", "reader"}, agent...), nil},
		"one lane":  {token("bound", "--role-id", "agent", "--role-id", "reader", "--lane", "night"), []string{"wait"}},
		"operator":  {[]string{"--credentials", operator}, []string{"hello", "wait"}},
	} {
		if got := s.listed(c.args...); !slices.Equal(got, c.want) {
			t.Errorf("%s: lists %v, want %v", name, got, c.want)
		}
	}
	for _, form := range [][]string{nil, {"--json"}} {
		answer := func(id string) string {
			code, out, stderr := s.do(slices.Concat([]string{"tools", "show", id}, form, agent)...)
			return strings.ReplaceAll(out+stderr, id, "ID") + string(rune('0'+code%10))
		}
		if hidden, unknown := answer("wait"), answer("wiat"); hidden != unknown || !strings.Contains(unknown, "ID") {
			t.Errorf("hidden:  %s\nunknown: %s", hidden, unknown)
		}
	}
	s.must(append([]string{"tools", "show", "wait"}, both...)...)
	out := s.must("tools", "lint", "--credentials", operator)
	if !strings.Contains(out, "2 tools of the bus, 0 problems, ") {
		t.Errorf("lint without a folder says %s", out)
	}
	s.must("policy", "push", shifts(t, "day, night"), "--credentials", operator)
	s.awaitList([]string{"hello", "wait"}, agent...)
}

// awaitList waits until the policy lets `toolbus tools list` print these tools.
func (s shell) awaitList(want []string, args ...string) {
	s.t.Helper()
	for begun := time.Now(); !slices.Equal(s.listed(args...), want); {
		if time.Since(begun) > 10*time.Second {
			s.t.Fatal("the list does not follow the policy")
		}
	}
}
