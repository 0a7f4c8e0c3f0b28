package cli_test

import (
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/mod/semver"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/internal/cli"
)

const (
	revision = "0a1b2c3d4e5f00112233445566778899aabbccdd"
	short    = "0a1b2c3d4e5f"
	pseudo   = "v0.1.1-0.20261125110000-" + short
)

func TestBuildOf(t *testing.T) {
	revisions := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: revision}, {Key: "vcs.modified", Value: modified}}
	}
	for name, test := range map[string]struct {
		main     debug.Module
		settings []debug.BuildSetting
		want     cli.Build // Version holds what follows toolbus.Version
	}{
		"nothing recorded": {},
		"of a folder":      {main: debug.Module{Version: "(devel)"}},
		"at a tag": {debug.Module{Version: "v0.1.0"}, revisions("false"),
			cli.Build{Version: "+" + short, Commit: revision}},
		"after a tag": {debug.Module{Version: pseudo}, revisions("false"),
			cli.Build{Version: "+" + short, Commit: revision}},
		"modified": {debug.Module{Version: pseudo + "+dirty"}, revisions("true"),
			cli.Build{Version: "+" + short + ".dirty", Commit: revision, Modified: true}},
		"installed": {main: debug.Module{Version: "v0.3.0", Sum: "h1:x="}, want: cli.Build{Module: "v0.3.0", Sum: "h1:x="}},
		"installed at a commit": {main: debug.Module{Version: pseudo, Sum: "h1:x="},
			want: cli.Build{Version: "+" + short, Commit: short, Module: pseudo, Sum: "h1:x="}},
	} {
		test.want.Version, test.want.Go = toolbus.Version+test.want.Version, "go1.26"
		got := cli.BuildOf(&debug.BuildInfo{GoVersion: "go1.26", Main: test.main, Settings: test.settings})
		if got != test.want || !semver.IsValid("v"+got.Version) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	if !strings.HasPrefix(cli.Version(), toolbus.Version) {
		t.Errorf("this build is called %s", cli.Version())
	}
}

// A module that was installed, or built at the tag of its version, can be fetched. Another build of a clone cannot.
func TestPublished(t *testing.T) {
	released := "v" + toolbus.Version
	for main, want := range map[debug.Module]string{
		{Version: released}:             released,
		{Version: pseudo, Sum: "h1:x="}: pseudo,
		{Version: pseudo}:               "",
		{Version: released + "+dirty"}:  "",
		{Version: "(devel)"}:            "",
	} {
		if got := cli.Published(&debug.BuildInfo{Main: main}); got != want {
			t.Errorf("%+v: %q, want %q", main, got, want)
		}
	}
}
