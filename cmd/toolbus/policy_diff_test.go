package main

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
)

// A diff shows what a push would change, and a push then changes it.
func TestPolicyDiff(t *testing.T) {
	s, operator := deployedWith(t, toolbus.DispatcherOptions{})
	diff := func(dir string) string {
		t.Helper()
		return strings.Join(strings.Fields(s.must("policy", "diff", dir, "--credentials", operator)), " ")
	}
	const grant = "agent day hello 0.1.0 implicit - - -"
	day, night := policyFolder(t, "day"), policyFolder(t, "night")
	said := diff(day)
	if !strings.HasPrefix(said, "these documents differ from revision 0: ") || !strings.HasSuffix(said, " + "+grant) {
		t.Errorf("before the first push: %s", said)
	}
	s.must("policy", "push", day, "--credentials", operator)
	if said := diff(day); !strings.HasPrefix(said, "the folder has the set of revision ") {
		t.Errorf("the same set: %s", said)
	}
	said = diff(night)
	if !strings.Contains(said, ": policy/roles.yaml ROLE ") ||
		!strings.HasSuffix(said, " - "+grant+" + "+strings.Replace(grant, "day", "night", 1)) {
		t.Errorf("another lane: %s", said)
	}
	if code, _, stderr := s.do("policy", "diff", t.TempDir(), "--credentials", operator); code == 0 {
		t.Errorf("an empty folder: %s", stderr)
	}
	out := s.must("policy", "diff", night, "--json", "--credentials", operator)
	if !strings.Contains(out, `"allowed": [`) || !strings.Contains(out, `"lane": "night"`) {
		t.Error(out)
	}
}
