package docs_test

import (
	"regexp"
	"testing"

	"github.com/seed-018f16cc/toolbus"
)

// What a user copies to install Toolbus names the version of this build.
func TestVersion(t *testing.T) {
	version := regexp.MustCompile(`(?:@v|checkout v|toolbus-|toolbus:|VERSION:-)([0-9]+\.[0-9]+\.[0-9]+)`)
	for page, least := range map[string]int{"README.md": 2, "docs/release.md": 6, "deploy/compose.yaml": 1} {
		found := version.FindAllStringSubmatch(read(t, page), -1)
		if len(found) < least {
			t.Errorf("%s has %d versions", page, len(found))
		}
		for _, m := range found {
			if m[1] != toolbus.Version {
				t.Errorf("%s names version %s, and this is %s", page, m[1], toolbus.Version)
			}
		}
	}
}
