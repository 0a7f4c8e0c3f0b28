package cli

import (
	"runtime/debug"
	"strings"

	"golang.org/x/mod/module"

	"github.com/seed-018f16cc/toolbus"
)

// Build describes how a program was built. Fields that the build did not record are empty.
type Build struct {
	Version  string `json:"version"`             // [toolbus.Version], and a part of the commit
	Commit   string `json:"commit,omitzero"`     // a part of it, if the program was installed from a version of the module
	Modified bool   `json:"modified,omitzero"`   // the sources were not those of the commit
	Module   string `json:"module,omitzero"`     // version of the module, of a program that `go install` made
	Sum      string `json:"sum,omitzero"`        // checksum of that module, as in go.sum
	Go       string `json:"go_version,omitzero"` // version of Go
}

// Version returns [toolbus.Version] with the commit that this program was built from, if the build recorded one.
func Version() string { return CurrentBuild().Version }

// CurrentBuild returns what is known of the build of this program.
func CurrentBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return Build{Version: toolbus.Version}
	}
	return BuildOf(info)
}

// Published returns the version of this module that has the packages of a build and that the go command can fetch. It
// returns "" if none is known.
func Published(info *debug.BuildInfo) string {
	if v := info.Main.Version; info.Main.Sum != "" || v == "v"+toolbus.Version {
		return v
	}
	return ""
}

// commitLength is the length of the part of a commit in a version, as in the pseudo-versions of Go.
const commitLength = 12

// BuildOf returns what info says of a build of Toolbus. It ignores the number of the module's version: the go command
// derives it from the newest tag, so a commit after v0.1.0 would be 0.1.1.
func BuildOf(info *debug.BuildInfo) Build {
	b := Build{Version: toolbus.Version, Go: info.GoVersion}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if info.Main.Sum != "" {
		b.Module, b.Sum = info.Main.Version, info.Main.Sum
	}
	if rev, err := module.PseudoVersionRev(info.Main.Version); err == nil && b.Commit == "" {
		b.Commit = rev
		b.Modified = strings.HasSuffix(info.Main.Version, "+dirty")
	}
	if b.Commit != "" {
		b.Version += "+" + b.Commit[:min(commitLength, len(b.Commit))]
	}
	if b.Modified {
		b.Version += ".dirty"
	}
	return b
}
