package policy_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/tool"
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
	filled := strings.NewReplacer("{{fields}}\n", b.String(), "{{meanings}}\n", meanings())
	golden(t, "../../docs/policy.md", filled.Replace(string(template)))
}

// meanings is the table of the strings that have to be sanitized.
func meanings() string {
	var b strings.Builder
	b.WriteString("| format | a word of the name, or one of the first three of the description | " +
		"the last word of the name |\n|---|---|---|\n")
	for _, by := range tool.Meanings() {
		fmt.Fprintf(&b, "| `%s` | `%s` | `%s` |\n", by.Format, strings.Join(by.Words, "`, `"), strings.Join(by.Ends, "`, `"))
	}
	return b.String()
}
