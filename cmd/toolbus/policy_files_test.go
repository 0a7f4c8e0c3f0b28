package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// Init replaces the files of an earlier set only with --force, and then all of them. It says what it has replaced.
func TestPolicyInitForce(t *testing.T) {
	dir, s := t.TempDir(), shell{t: t}
	args := []string{"policy", "init", dir, "--tools", toolsFolder(t)}
	s.must(args...)
	lanes := filepath.Join(dir, policy.LanesFile)
	writeFile(t, lanes, "lanes: []\n")
	code, out, stderr := s.do(args...)
	if code != 1 || out != "" || !strings.Contains(stderr, lanes) || !strings.Contains(stderr, "--force") {
		t.Errorf("without --force: exit %d: %s%s", code, out, stderr)
	}
	if text, err := os.ReadFile(lanes); err != nil || string(text) != "lanes: []\n" {
		t.Errorf("it was replaced: %v: %s", err, text)
	}
	code, out, stderr = s.do(append(args, "--force")...)
	if code != 0 || !strings.HasPrefix(out, filepath.Join(dir, policy.RolesFile)+"\n") || !strings.Contains(stderr,
		"replaced: policy/roles.yaml, policy/lanes.yaml, tools/tool_registry.yaml") {
		t.Errorf("with --force: exit %d: %s%s", code, out, stderr)
	}
	if code, out, _ := s.do("policy", "lint", dir, "--tools", args[len(args)-1]); code != 0 {
		t.Errorf("lint: %s", out)
	}
	if code, _, stderr := s.do("policy", "init", filepath.Join(dir, "nosuch")); code != 1 ||
		!strings.Contains(stderr, "nosuch/tools: no such file") || !strings.Contains(stderr, "--tools DIR") {
		t.Errorf("without tools: exit %d: %s", code, stderr)
	}
}

// A set in the folder of new keys stays, and the error says how to replace it.
func TestKeysInitBesidePolicy(t *testing.T) {
	dir, s := t.TempDir(), shell{t: t}
	writeFile(t, filepath.Join(dir, policy.LanesFile), "lanes: []\n")
	code, _, stderr := s.do("keys", "init", dir, "--tools", toolsFolder(t))
	if code != 1 || !strings.Contains(stderr, "the secrets are written, the policy is not") ||
		!strings.Contains(stderr, "toolbus policy init "+dir+" --tools ") || !strings.Contains(stderr, "--force") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
