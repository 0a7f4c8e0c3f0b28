package docs_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
)

// TestImagesOfTools holds that the images of docs/release.md take files from the image of Toolbus that .ci/release puts
// there.
func TestImagesOfTools(t *testing.T) {
	has, seen := filesOfImage(t), 0
	for _, b := range blocksOf(read(t, "docs/release.md")) {
		if b.kind != "dockerfile" {
			continue
		}
		seen++
		var copied []string
		for line := range strings.Lines(b.text) {
			words := strings.Fields(line)
			if words[0] == "COPY" && words[1] == "--from=toolbus" {
				copied = append(copied, words[2:len(words)-1]...)
			}
		}
		for _, name := range copied {
			if !slices.Contains(has, name) {
				t.Errorf("docs/release.md:%d: the image of Toolbus has no %s", b.line, name)
			}
		}
		for _, want := range []string{"/usr/local/bin/executor", "/usr/local/bin/toolbus-supervisor"} {
			if !slices.Contains(copied, want) {
				t.Errorf("docs/release.md:%d: it does not copy %s", b.line, want)
			}
		}
		if from := "FROM toolbus:" + toolbus.Version + " AS toolbus\n"; !strings.HasPrefix(b.text, from) {
			t.Errorf("docs/release.md:%d: it does not begin with %s", b.line, from)
		}
	}
	if seen != 2 {
		t.Errorf("docs/release.md has %d images", seen)
	}
}

// filesOfImage returns the files that .ci/release copies into the image.
func filesOfImage(t *testing.T) (names []string) {
	t.Helper()
	script := read(t, ".ci/release")
	programs := regexp.MustCompile(`cp "\$from"/\{(.*)\} "\$work/root(/.*/)"`).FindStringSubmatch(script)
	authorities := regexp.MustCompile(`cp -L /.*(/[^/ ]+) "\$work/root(/.*)/"`).FindStringSubmatch(script)
	if programs == nil || authorities == nil {
		t.Fatal(".ci/release copies no programs, or no certificate authorities")
	}
	for name := range strings.SplitSeq(programs[1], ",") {
		names = append(names, programs[2]+name)
	}
	return append(names, authorities[2]+authorities[1])
}
