package imports_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestCoverageTable holds .ci/coverage to the tree: every package but those below test/ has a row, with its floor, or
// with a dash if it is a support package or a program. `.ci/cover` compares the floors with what the tests cover.
func TestCoverageTable(t *testing.T) {
	rows := coverageRows(t)
	for _, p := range packages(t) {
		path := p.path()
		if !rows[path] && !matches("test/...", path) {
			t.Errorf("%s has no row in .ci/coverage: add it, two points below its coverage of today", path)
		}
		delete(rows, path)
	}
	for path := range rows {
		t.Errorf(".ci/coverage names %s, which is not a package", path)
	}
}

// coverageRows returns the packages of .ci/coverage. A row is a package, and its floor in percent or a dash.
func coverageRows(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../.ci/coverage")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) != 2 || rows[fields[0]] {
			t.Fatalf(".ci/coverage: a line is a package, once, and its floor: %q", line)
		}
		if floor, err := strconv.Atoi(fields[1]); fields[1] != "-" && (err != nil || floor <= 0 || floor > 100) {
			t.Errorf(".ci/coverage: a floor is a number from 1 to 100: %q", line)
		}
		rows[fields[0]] = true
	}
	return rows
}
