package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// questions is how many rows the table "Where is it?" of docs/reading.md has. A question is not removed because its
// answer has moved.
const questions = 21

// TestQuestions holds that table to the tree: each package has Go code, each file is there, and is in one of the
// packages of its row, each of which has a file.
func TestQuestions(t *testing.T) {
	rows := 0
	for _, cells := range tableRows(section(t, "docs/reading.md", "Where is it?"), 3) {
		rows++
		var within []string
		for _, file := range places(cells[2]) {
			if info, err := os.Stat(filepath.Join(root, file)); err != nil || !info.Mode().IsRegular() {
				t.Errorf("%s %s is not a file of this tree", cells[0], file)
			}
			within = append(within, path.Dir(file))
		}
		packages := places(cells[1])
		if len(packages) == 0 || !strings.HasSuffix(cells[0], "?") {
			t.Errorf("the row %q needs a question and a package", cells)
		}
		for _, p := range packages {
			if code, err := fs.Glob(os.DirFS(root), p+"/*.go"); err != nil || len(code) == 0 {
				t.Errorf("%s %s is not a package of this tree", cells[0], p)
			}
		}
		slices.Sort(within)
		slices.Sort(packages)
		if within = slices.Compact(within); !slices.Equal(within, packages) {
			t.Errorf("%s the packages are %q, the files lie in %q", cells[0], packages, within)
		}
	}
	if rows != questions {
		t.Errorf("docs/reading.md answers %d questions, want %d", rows, questions)
	}
}

// section returns what a page says below a heading of the second level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(read(t, page), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", page, heading)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// tableRows returns the cells of the rows of tables that have a number of columns, without the head of the first.
func tableRows(text string, columns int) (rows [][]string) {
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "|") || len(cells) != columns {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows[min(2, len(rows)):]
}

// places returns the names in backticks of a cell.
func places(cell string) (names []string) {
	for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
		names = append(names, m[1])
	}
	return names
}
