package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

// TestTrouble holds that the code says each text that docs/operations.md quotes as a sign of trouble. In a quotation …
// stands for anything, and texts in backticks are codes, commands and messages of NATS.
func TestTrouble(t *testing.T) {
	code, checked := "", 0
	for _, name := range files(t, ".go") {
		if !strings.HasSuffix(name, "_test.go") {
			code += read(t, name)
		}
	}
	code = regexp.MustCompile(`"\s*\+\s*"`).ReplaceAllString(code, "") // literals of several lines
	_, section, _ := strings.Cut(read(t, "docs/operations.md"), "\n## Trouble\n")
	section, _, _ = strings.Cut(section, "\n##")
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 2 {
			continue
		}
		for _, m := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(cells[1], -1) {
			for part := range strings.SplitSeq(m[1], "…") {
				if checked++; !strings.Contains(code, strings.TrimSpace(part)) {
					t.Errorf("docs/operations.md quotes %q, which the code does not say", m[1])
				}
			}
		}
	}
	if checked < 15 {
		t.Errorf("docs/operations.md quotes only %d texts", checked)
	}
}
