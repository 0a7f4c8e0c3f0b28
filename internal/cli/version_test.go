package cli_test

import (
	"strings"
	"testing"

	"golang.org/x/mod/semver"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func TestVersion(t *testing.T) {
	const commit = "+0a1b2c3d4e5f"
	for recorded, suffix := range map[string]string{
		"":                                     "",
		"(devel)":                              "",
		"v0.1.0":                               "", // the go command names a build at a tag after the tag
		"v0.0.0-20261125110000-0a1b2c3d4e5f":   commit,
		"v0.1.1-0.20261125110000-0a1b2c3d4e5f": commit, // a commit after the tag v0.1.0
		"v0.1.1-0.20261125110000-0a1b2c3d4e5f+dirty": commit + ".dirty",
	} {
		got := cli.VersionOf(recorded)
		if got != toolbus.Version+suffix || !semver.IsValid("v"+got) {
			t.Errorf("a build recorded as %q is called %s, want %s", recorded, got, toolbus.Version+suffix)
		}
	}
	if !strings.HasPrefix(cli.Version(), toolbus.Version) {
		t.Errorf("this build is called %s", cli.Version())
	}
}
