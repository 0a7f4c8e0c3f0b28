package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// A large registry that is read in parts is the same set, also with items that end in texts of several lines.
func TestParseParts(t *testing.T) {
	const item = "%[1]s- tool_name: tool-%[2]d\n%[1]s  description: |+\n%[1]s    a: %[3]s\n%[1]s    - b\n\n" +
		"%[1]s  enabled: true\n%[1]s  idempotent: true\n%[1]s  timeout_default_ms: 012\n%[1]s  allowed_lanes: [default]\n" +
		"# a comment\n%[1]s  required_scope_keys:\n%[1]s  - \"a\n%[1]s      - b\"\n%[1]s  prohibited_flags: []\n"
	for _, indent := range []string{"", "  "} {
		var registry strings.Builder
		registry.WriteString("# tools of the bus\n\ntools:\n")
		for i := range 1000 {
			fmt.Fprintf(&registry, item, indent, i, strings.Repeat("x", 600))
		}
		d := policy.Documents{
			Roles: []byte("roles: [{role_id: agent, allowed_lanes: [default]}]\n"),
			Lanes: []byte("lanes: [{lane_id: default, allowed_tools: ['*']}]\n"), ToolRegistry: []byte(registry.String()),
		}
		want, err := policy.Parse(d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := policy.ParseParts(d)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Entries, got.Entries); diff != "" || len(got.Entries) != 1000 {
			t.Error(diff)
		}
		for name, change := range map[string][2]string{
			"twice":       {"tool-999\n", "tool-1\n"},
			"wrong":       {"tool-999\n", "tool-999\n" + indent + "  enabeld: true\n"},
			"unclosed":    {"tool_name: tool-500\n", "tool_name: \"tool-500\n"},
			"a bracket":   {"tool_name: tool-500\n", "tool_name: [tool-500\n"},
			"another key": {"# tools of the bus\n\n", "zzz: 1\n"},
			"a second":    {"# tools of the bus\n\n", "--- \ntools: []\n---\n"},
		} {
			bad := d
			bad.ToolRegistry = []byte(strings.Replace(registry.String(), change[0], change[1], 1))
			if _, err := policy.ParseParts(bad); err == nil {
				t.Errorf("%s: no problem is found", name)
			}
		}
	}
}
