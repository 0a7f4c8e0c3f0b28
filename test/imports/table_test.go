package imports_test

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestTable holds the table of docs/architecture.md to that of this test: the same rows in the same order.
func TestTable(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Packages by floor\n")
	table, _, _ = strings.Cut(table, "\n## ")
	name := regexp.MustCompile("`([^`]+)`")
	var documented, want []string
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 6 && strings.Contains(cells[2], "`") {
			row := []string{strings.TrimSpace(cells[1])}
			for _, m := range name.FindAllStringSubmatch(cells[2], -1) {
				row = append(row, m[1])
			}
			if nats := strings.TrimSpace(cells[3]); nats != "" {
				row = append(row, "NATS", nats)
			}
			documented = append(documented, strings.Join(row, " "))
		}
	}
	for _, l := range layers {
		if l.packages == "." {
			l.packages = "toolbus"
		}
		row := strconv.Itoa(l.floor) + " " + l.packages
		if l.nats != "" {
			row += " NATS " + l.nats
		}
		want = append(want, row)
	}
	for i, row := range want {
		if i >= len(documented) || documented[i] != row {
			t.Fatalf("docs/architecture.md does not say in its row %d of packages: %q\n%q", i+1, row, documented)
		}
	}
	if len(documented) > len(want) {
		t.Errorf("docs/architecture.md has further packages: %q", documented[len(want):])
	}
}
