package docs_test

import (
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

// The size of the README: what a newcomer reads in one sitting. 200 lines, and 24 for the policy of `toolbus dev`.
const (
	readmeLines = 224
	readmeWidth = 120
)

func TestReadmeIsShort(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(read(t, "README.md"), "\n"), "\n")
	if len(lines) > readmeLines {
		t.Errorf("README.md has %d lines, at most %d are allowed", len(lines), readmeLines)
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > readmeWidth {
			t.Errorf("README.md:%d has %d characters, at most %d are allowed", i+1, n, readmeWidth)
		}
	}
}

func goIn(t *testing.T, dir string, words ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(words, " "), err, out)
	}
}
