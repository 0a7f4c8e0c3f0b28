package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// sameSet reports whether two folders have the same documents.
func sameSet(t *testing.T, one, other string) bool {
	t.Helper()
	var sets [2]policy.Documents
	for i, dir := range []string{one, other} {
		d, err := policy.ReadFolder(os.DirFS(dir))
		if err != nil {
			t.Fatal(err)
		}
		sets[i] = d
	}
	return sets[0].Versions() == sets[1].Versions()
}

// What pull writes is what was pushed, and can be pushed again. It replaces no other content unless it is forced.
func TestPolicyPull(t *testing.T) {
	s, operator := deployedWith(t, toolbus.DispatcherOptions{})
	pull := func(args ...string) []string {
		return append(append([]string{"policy", "pull"}, args...), "--credentials", operator)
	}
	into := filepath.Join(t.TempDir(), "set")
	if code, _, stderr := s.do(pull(into)...); code != 1 || !strings.Contains(stderr, "toolbus policy push DIR") {
		t.Errorf("without a policy: exit %d: %s", code, stderr)
	}
	day, night := policyFolder(t, "day"), policyFolder(t, "night")
	s.must("policy", "push", day, "--credentials", operator)
	said := s.must(pull(into)...)
	if !sameSet(t, day, into) || !strings.Contains(said, "wrote "+filepath.Join(into, policy.LanesFile)) ||
		!strings.Contains(said, ", in force\n") ||
		!strings.Contains(said, "policy lint "+into+" --tools DIR\n") ||
		!strings.Contains(said, "policy push "+into+" --expect ") {
		t.Errorf("pull: %s", said)
	}
	var first pulled
	if err := json.Unmarshal([]byte(s.must(append(pull(into), "--json")...)), &first); err != nil {
		t.Fatal(err)
	}
	if first.Revision == 0 || first.InForce != first.Revision || len(first.Files) != 3 || len(first.Replaced) != 0 ||
		len(first.Unchanged) != 3 {
		t.Errorf("pulled again: %+v", first)
	}
	if said := s.must(pull(into)...); strings.Count(said, "\nunchanged "+into) != 3 || strings.Contains(said, "wrote") {
		t.Errorf("pulled again: %s", said)
	}
	s.must("policy", "push", night, "--credentials", operator)
	code, _, stderr := s.do(pull(into)...)
	if code != 1 || !strings.Contains(stderr, filepath.Join(into, policy.RolesFile)+" exists: name another folder") ||
		!strings.Contains(stderr, "--force") || !sameSet(t, day, into) {
		t.Errorf("over another set: exit %d: %s", code, stderr)
	}
	if said := s.must(pull(into, "--force")...); !sameSet(t, night, into) ||
		!strings.Contains(said, "replaced "+filepath.Join(into, policy.RolesFile)) {
		t.Errorf("forced: %s", said)
	}
	said = s.must(pull(into, "--force", "--revision", fmtRevision(first.PolicyVersion))...)
	if !sameSet(t, day, into) || !strings.Contains(said, "no longer in force") {
		t.Errorf("an earlier revision: %s", said)
	}
	left, err := filepath.Glob(filepath.Join(into, "*", ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
	if said := s.must("__complete", "policy", "pull", "--credentials", operator, "--revision", ""); !strings.Contains(said,
		fmtRevision(first.PolicyVersion)+"\t") {
		t.Errorf("completion: %s", said)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--revision", "999999"}, exitTerminal, "no revision 999999"},
		{[]string{"--revision", "newest"}, exitUsage, "policy history"},
		{[]string{"--revision", ""}, exitUsage, "policy history"},
		{[]string{filepath.Join(into, policy.RolesFile)}, 1, "not a directory"},
	} {
		if code, _, stderr := s.do(pull(c.args...)...); code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("%v: exit %d, want %d: %s", c.args, code, c.code, stderr)
		}
	}
}
