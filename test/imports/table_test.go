package imports_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTable holds the table of docs/architecture.md to that of this test: the same rows in the same order.
func TestTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Packages, leaves first\n")
	table, _, _ = strings.Cut(table, "\n## ")
	name := regexp.MustCompile("`([^`]+)`")
	var documented, want []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			var row []string
			for _, m := range name.FindAllStringSubmatch(cells[2], -1) {
				row = append(row, m[1])
			}
			documented = append(documented, strings.Join(row, " "))
		}
	}
	for _, l := range layers {
		if l.packages == "." {
			l.packages = "toolbus"
		}
		want = append(want, l.packages)
	}
	documented = slices.DeleteFunc(documented, func(row string) bool { return row == "" })
	if !slices.Equal(documented, want) {
		t.Errorf("docs/architecture.md and this test disagree\nonly in the document: %q\nonly in the test:     %q",
			without(documented, want), without(want, documented))
	}
}
