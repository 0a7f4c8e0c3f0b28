package policy_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// The page about policy has the fields of the schemas.
func TestPolicyPage(t *testing.T) {
	template, err := os.ReadFile("testdata/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, d := range policy.AllDocuments() {
		fields, err := d.Fields()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n### %s\n\n", d.File)
		b.WriteString("| Field | Type | Default | State | Source | Meaning |\n|---|---|---|---|---|---|\n")
		for _, f := range fields {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", strings.ReplaceAll(f.Name, ".[]", "[]"),
				strings.ReplaceAll(f.Type, " | ", ", "), f.Default, f.State, f.Source, f.Description)
		}
	}
	golden(t, "../../docs/policy.md", strings.ReplaceAll(string(template), "{{fields}}\n", b.String()))
}
