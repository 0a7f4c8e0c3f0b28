package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// toolsFolder returns a folder with the tools text.search, which is pure, and fs.write, which writes.
func toolsFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for id, determinism := range map[string]string{"text.search": "pure", "fs.write": "side_effectful"} {
		writeFile(t, filepath.Join(dir, id, "tool.yaml"), "tool_id: "+id+`
semver: 1.0.0
owner: o
description: d
schema: {request: {properties: {path: {type: string}}}, response: {}}
determinism: `+determinism+"\n")
	}
	return dir
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The set that init writes passes lint, and allows agents the tools of the folder.
func TestPolicy(t *testing.T) {
	dir, s := t.TempDir(), shell{t: t}
	tools := []string{"--tools", toolsFolder(t)}
	code, out, stderr := s.do(append([]string{"policy", "init", dir}, tools...)...)
	for _, document := range policy.AllDocuments() {
		if !strings.Contains(out, filepath.Join(dir, document.File)+"\n") {
			t.Errorf("init names no %s: %s", document.File, out)
		}
	}
	if code != 0 || strings.Count(out, "\n") != 3 {
		t.Fatalf("init: exit %d: %s%s", code, out, stderr)
	}
	if code, _, stderr := s.do(append([]string{"policy", "init", dir}, tools...)...); code != 1 ||
		!strings.Contains(stderr, "roles.yaml, ") {
		t.Errorf("init again: exit %d: %s", code, stderr)
	}
	code, out, _ = s.do(append([]string{"policy", "lint", dir}, tools...)...)
	if code != 0 || !strings.Contains(out, "fs.write may write to every target") ||
		!strings.Contains(out, "warning: text.search may be given any text as /properties/path") ||
		!strings.Contains(out, "\n0 problems, 3 warnings") {
		t.Errorf("lint: exit %d: %s", code, out)
	}
	code, out, _ = s.do(append([]string{"policy", "lint", dir, "--json"}, tools...)...)
	var report policyReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 || len(report.Problems) != 3 {
		t.Fatalf("lint --json: exit %d, %v: %s", code, err, out)
	}
	for _, p := range report.Problems {
		if p.File != policy.ToolRegistryFile || p.Line == 0 || p.Severity != tool.Warning || p.Hint == "" {
			t.Errorf("lint --json: %+v, want a warning about an entry", p)
		}
	}
	set := append([]string{"--policy", dir}, tools...)
	code, out, _ = s.do(append([]string{"policy", "who-can", "text.search"}, set...)...)
	if code != 0 || !strings.Contains(out, "agent  default  text.search") {
		t.Errorf("who-can: exit %d: %s", code, out)
	}
	code, out, _ = s.do(append([]string{"policy", "can", "agent", "--json"}, set...)...)
	var grants []policy.Grant
	if err := json.Unmarshal([]byte(out), &grants); err != nil || code != 0 || len(grants) != 2 {
		t.Errorf("can: exit %d, %v: %s", code, err, out)
	}
	for _, try := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"who-can", "nosuch"}, 1, "nobody can call nosuch"},
		{[]string{"can", "agnet"}, 1, `did you mean "agent"?`},
		{[]string{"who-can"}, exitUsage, "tool id"},
	} {
		code, out, stderr := s.do(append(append([]string{"policy"}, try.args...), set...)...)
		if code != try.code || !strings.Contains(out+stderr, try.says) {
			t.Errorf("%v: exit %d, %s%s", try.args, code, out, stderr)
		}
	}
}

// Lint lists all problems of the documents, or those that only the manifests show.
func TestPolicyLint(t *testing.T) {
	dir, s := t.TempDir(), shell{t: t}
	if code, out, _ := s.do("policy", "lint", dir, "--json"); code != 1 || strings.Count(out, `"fix"`) != 3 {
		t.Errorf("without documents: exit %d: %s", code, out)
	}
	none := filepath.Join(dir, "nosuch")
	for _, args := range []string{"lint " + none, "can agent --policy " + none} {
		code, out, stderr := s.do(append([]string{"policy"}, strings.Fields(args)...)...)
		if code != exitUsage || strings.Count(out+stderr, "\n") != 1 || !strings.Contains(stderr, none+" does not exist: ") {
			t.Errorf("%s: exit %d: %s%s", args, code, out, stderr)
		}
	}
	write := func(name, text string) { writeFile(t, filepath.Join(dir, name), text) }
	write(policy.RolesFile, "roles: [{role_id: agent, allowed_lanes: [defualt]}]")
	write(policy.LanesFile, "lanes: [{lane_id: default, allowed_tools: [\"*\"]}]")
	write(policy.ToolRegistryFile, `tools:
  - {tool_name: fs.write, description: d, enabled: true, idempotent: true, timeout_default_ms: 1,
     allowed_lanes: [default], required_scope_keys: [], prohibited_flags: []}
`)
	code, out, _ := s.do("policy", "lint", dir)
	const unknown = `policy/roles.yaml:1:42: policy/lanes.yaml has no lane "defualt" (did you mean "default"?)`
	if code != 1 || !strings.Contains(out, unknown) {
		t.Errorf("a lane that is not there: exit %d: %s", code, out)
	}
	code, out, _ = s.do("policy", "lint", dir, "--tools", toolsFolder(t))
	for _, part := range []string{unknown, "fs.write writes, and no write target is allowed by its entry",
		"fs.write writes, and no lane with write: true allows it", "the tool text.search is not registered"} {
		if code != 1 || !strings.Contains(out, part) {
			t.Errorf("with a tool that writes: exit %d, no %q: %s", code, part, out)
		}
	}
	write(policy.RolesFile, "roles: [{role_id: agent, allowed_lanes: [default]}]")
	code, out, _ = s.do("policy", "lint", dir, "--tools", toolsFolder(t), "--json")
	var report policyReport
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 1 || !report.Problems.Failed() {
		t.Fatalf("a tool that writes: exit %d, %v: %s", code, err, out)
	}
	if p := report.Problems[0]; p.File != policy.ToolRegistryFile || p.Line != 2 || p.Severity != tool.Refused {
		t.Errorf("problem %+v", p)
	}
}

func TestPolicySchema(t *testing.T) {
	s := shell{t: t}
	code, out, _ := s.do("policy", "schema", "lanes")
	if code != 0 || !strings.Contains(out, `"toolbus://schemas/lanes.yaml.json"`) {
		t.Errorf("exit %d: %.100s", code, out)
	}
	code, _, stderr := s.do("policy", "schema", "lane")
	if code != exitUsage || !strings.Contains(stderr, "tool_registry") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
