package imports_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestCoverageTable holds .ci/coverage to the tree: every package but those below test/ has a floor, and one without
// tests has the floor 0. `.ci/race` compares the floors with what the tests cover.
func TestCoverageTable(t *testing.T) {
	floors := coverageFloors(t)
	for _, p := range packages(t) {
		path := p.path()
		if matches("test/...", path) {
			continue
		}
		floor, ok := floors[path]
		switch tested := len(p.TestImports)+len(p.XTestImports) > 0; {
		case !ok:
			t.Errorf("%s has no floor in .ci/coverage: add it, with the coverage of today less what is over a multiple of 5",
				path)
		case !tested && floor != 0:
			t.Errorf("%s has no tests, but the floor %d", path, floor)
		}
		delete(floors, path)
	}
	for path := range floors {
		t.Errorf(".ci/coverage names %s, which is not a package", path)
	}
}

// coverageFloors reads the lines of .ci/coverage: a package and its floor in percent.
func coverageFloors(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile("../../.ci/coverage")
	if err != nil {
		t.Fatal(err)
	}
	floors := map[string]int{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		floor, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil || len(fields) != 2 || floor < 0 || floor > 100 || floor%5 != 0 {
			t.Fatalf(".ci/coverage: a line is a package and a multiple of 5 up to 100, not %q", line)
		}
		if _, twice := floors[fields[0]]; twice {
			t.Errorf(".ci/coverage names %s twice", fields[0])
		}
		floors[fields[0]] = floor
	}
	return floors
}
