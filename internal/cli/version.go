package cli

import (
	"runtime/debug"
	"strings"

	"golang.org/x/mod/module"

	"github.com/seed-018f16cc/toolbus"
)

// Version returns [toolbus.Version] with the commit that this program was built from, if the build recorded one.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return toolbus.Version
	}
	return VersionOf(info.Main.Version)
}

// VersionOf returns [toolbus.Version] with the commit in recorded, the version that the go command gave the module. It
// ignores the number in recorded: the go command derives it from the newest tag, so a commit after v0.1.0 would be
// 0.1.1.
func VersionOf(recorded string) string {
	commit, err := module.PseudoVersionRev(recorded)
	if err != nil {
		return toolbus.Version
	}
	if strings.HasSuffix(recorded, "+dirty") {
		commit += ".dirty"
	}
	return toolbus.Version + "+" + commit
}
