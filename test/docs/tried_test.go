package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTried holds that each row of the tables of attacks in docs/security.md names a test that is in test/attack, or
// that the row is a residual.
func TestTried(t *testing.T) {
	files, err := filepath.Glob("../attack/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	_, section, _ := strings.Cut(read(t, "docs/security.md"), "\n## What somebody who took a part over can do\n")
	rows, named := 0, regexp.MustCompile("`(Test[A-Za-z0-9]+)[`/]")
	for line := range strings.Lines(section) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| part |") || strings.HasPrefix(line, "| attack |") {
			continue
		}
		rows++
		tests := named.FindAllStringSubmatch(line, -1)
		if len(tests) == 0 && !strings.Contains(line, "| **residual**: ") {
			t.Errorf("docs/security.md names no test and no residual for%s", line)
		}
		for _, test := range tests {
			if !strings.Contains(code.String(), "\nfunc "+test[1]+"(t *testing.T)") {
				t.Errorf("docs/security.md names %s, which is not in test/attack", test[1])
			}
		}
	}
	if rows < 40 {
		t.Errorf("docs/security.md has %d rows of attacks", rows)
	}
}
