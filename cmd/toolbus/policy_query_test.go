package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// refunding returns a folder with the tool refund, whose calls need a scope of the token, and a folder with a policy
// in which agents may call it for a case.
func refunding(t *testing.T) (tools, set string) {
	t.Helper()
	tools = t.TempDir()
	writeFile(t, filepath.Join(tools, "servers.json"), `{"servers":{"shop":{"url":"http://127.0.0.1:9/mcp"}}}`)
	writeFile(t, filepath.Join(tools, "refund", "any.json"), "true")
	writeFile(t, filepath.Join(tools, "refund", "tool.yaml"), `{tool_id: refund, semver: 1.0.0, owner: "@test",
		description: Refunds., determinism: pure, transport: mcp, endpoint: {server: shop, tool: refund},
		security: {required_scopes: ["refund:issue", "case:read"]},
		functions: {run: {request: any.json, response: any.json}}}`)
	entry := func(id string) string {
		return "{tool_name: " + id + ", description: d, enabled: true, idempotent: true, timeout_default_ms: 1000, " +
			"allowed_lanes: [cases], required_scope_keys: [customer], prohibited_flags: []}"
	}
	return tools, policyFiles(t, map[string]string{
		policy.RolesFile: "roles: [{role_id: agent, allowed_lanes: [cases]}, {role_id: idle, allowed_lanes: [empty]}]\n",
		policy.LanesFile: "lanes: [{lane_id: cases, allowed_tools: [refund, gone], required_scope_keys: [case_id], " +
			"runs: implicit}, {lane_id: empty, allowed_tools: [nothing]}]\n",
		policy.ToolRegistryFile: "tools: [" + entry("refund") + ", " + entry("gone") + "]\n",
	})
}

// With --live the questions are about the policy in force and the tools of the bus. The answers name what a call needs
// of its scope and of its token, and are those about the folders of the same set and tools.
func TestPolicyQueryLive(t *testing.T) {
	folder, set := refunding(t)
	tools := toolbus.NewToolset()
	if err := tools.AddFolder(folder); err != nil {
		t.Fatal(err)
	}
	s, operator := deployedTools(t, toolbus.DispatcherOptions{}, tools)
	ask := func(args ...string) (code int, stdout, stderr string) {
		return s.do(append(append([]string{"policy"}, args...), "--credentials", operator)...)
	}
	code, _, stderr := ask("who-can", "refund", "--live")
	if code != 1 || !strings.Contains(stderr, "toolbus policy push") {
		t.Errorf("without a policy: exit %d: %s", code, stderr)
	}
	s.must("policy", "push", set, "--credentials", operator)
	for _, question := range [][]string{{"who-can", "refund"}, {"can", "agent"}} {
		for _, of := range [][]string{{"--live"}, {"--policy", set, "--tools", folder}} {
			code, out, stderr := ask(slices.Concat(question, of, []string{"--json"})...)
			var grants []policy.Grant
			if err := json.Unmarshal([]byte(out), &grants); err != nil || code != 0 || len(grants) != 1 {
				t.Errorf("%v %v: exit %d, %v: %s%s", question, of, code, err, out, stderr)
				continue
			}
			one := grants[0]
			if one.Role != "agent" || one.Lane != "cases" || one.Version != "1.0.0" ||
				fmt.Sprint(one.RequiredScopes) != "[case:read refund:issue]" ||
				fmt.Sprint(one.RequiredScopeKeys) != "[case_id customer]" {
				t.Errorf("%v %v: %+v", question, of, one)
			}
		}
	}
	agent := s.token(operator, "agent")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"who-can", "refund", "--live"}, 0, "implicit  case_id,customer  case:read,refund:issue"},
		{[]string{"who-can", "refund", "--live"}, 0, "of the policy is in force"},
		{[]string{"who-can", "refnd", "--live"}, 1, `nobody can call refnd: tools/tool_registry.yaml has no entry for it ` +
			`(did you mean "refund"?)`},
		{[]string{"who-can", "gone", "--live"}, 1, "nobody can call gone: the policy has an entry for it"},
		{[]string{"can", "idle", "--live"}, 1, "idle can call nothing"},
		{[]string{"can", "agnet", "--live"}, 1, `did you mean "agent"?`},
		{[]string{"can", "agent", "--live", "--policy", set}, exitUsage, "--live asks the bus, and --policy names a folder"},
		{[]string{"can", "agent", "--live", "--tools", folder}, exitUsage, "--tools names a folder"},
		{append([]string{"can", "agent", "--live"}, agent...), exitTerminal, "A-AUTH-FORBIDDEN"},
	} {
		args := append([]string{"policy"}, c.args...)
		if !slices.Contains(args, "--credentials") {
			args = append(args, "--credentials", operator)
		}
		if code, out, stderr := s.do(args...); code != c.code || !strings.Contains(out+stderr, c.says) {
			t.Errorf("%v: exit %d, want %d with %q: %s%s", c.args, code, c.code, c.says, out, stderr)
		}
	}
	for line, want := range map[string]string{
		"who-can --live":        "refund\ngone\n:",
		"can --live":            "agent\nidle\n:",
		"can --policy " + set:   "agent\nidle\n:",
		"can --policy nosuch":   ":",
		"who-can --live refund": ":",
	} {
		args := append([]string{"__complete", "policy"}, strings.Fields(line)...)
		if out := s.must(append(args, "--credentials", operator, "")...); !strings.HasPrefix(out, want) {
			t.Errorf("completion of %s: %s", line, out)
		}
	}
}

// A question about a folder without the manifests warns of that, as the lint does.
func TestPolicyQueryWithoutManifests(t *testing.T) {
	folder, set := refunding(t)
	s := shell{t: t}
	for _, question := range []string{"can agent", "who-can refund"} {
		args := append([]string{"policy"}, strings.Fields(question+" --policy "+set)...)
		missing := "warning: " + filepath.Join(set, "tools") + " has no manifest of gone, refund: name the folder"
		if code, _, stderr := s.do(args...); code != 1 || !strings.Contains(stderr, missing) {
			t.Errorf("%s: exit %d, %s", question, code, stderr)
		}
		if code, _, stderr := s.do(append(args, "--tools", folder)...); code != 0 ||
			!strings.Contains(stderr, "no manifest of gone: ") {
			t.Errorf("%s with the tools: exit %d, %s", question, code, stderr)
		}
	}
	registry := filepath.Join(set, policy.ToolRegistryFile)
	entries, err := os.ReadFile(registry)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, registry, strings.ReplaceAll(string(entries), "enabled: true", "enabled: false"))
	const disabled = `nobody can call refund: the policy disables the tool "refund"`
	if code, out, _ := s.do("policy", "who-can", "refund", "--policy", set, "--tools", folder); code != 1 ||
		!strings.HasPrefix(out, disabled) {
		t.Errorf("a disabled tool: exit %d, %s", code, out)
	}
}
