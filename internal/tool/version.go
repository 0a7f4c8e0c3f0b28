package tool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// resolve returns the first of the versions, which are sorted by preferred, in the range want: an exact version, 1.x,
// ^1.2, ~1.2.3, ">=1 <2", * or "". A range selects a pre-release only if it names one. If no version is in the range,
// resolve returns the first version and a refusal that names them all.
func resolve(versions []*Manifest, want string) (*Manifest, *envelope.Error) {
	first := versions[0]
	if want == "" || want == "*" {
		return first, nil
	}
	if at := slices.IndexFunc(versions, func(m *Manifest) bool { return m.Semver == want }); at >= 0 {
		return versions[at], nil
	}
	if len(want) > envelope.MaxLabel {
		return first, envelope.NewError(envelope.CodeMalformed,
			fmt.Sprintf("tool_version is longer than %d bytes", envelope.MaxLabel))
	}
	wanted, err := semver.NewConstraint(want)
	if err != nil {
		return first, envelope.NewError(envelope.CodeMalformed, fmt.Sprintf("tool_version %q is not a semver range", want)).
			WithFix("write an exact version such as " + first.Semver + ", or a range such as ^1.2, 1.x or >=1.2 <2")
	}
	for _, m := range versions {
		if have, err := semver.StrictNewVersion(m.Semver); err == nil && wanted.Check(have) {
			return m, nil
		}
	}
	return first, outOfRange(versions, want)
}

func outOfRange(versions []*Manifest, want string) *envelope.Error {
	names := make([]string, len(versions))
	for i, m := range versions {
		names[i] = m.Semver
	}
	return envelope.NewError(envelope.CodeVersion,
		fmt.Sprintf("no version of %s is in %q; there is %s", versions[0].ToolID, want, strings.Join(names, ", "))).
		WithFix("ask for " + names[0])
}

// preferred orders the versions of a tool: callable before not callable, then releases before pre-releases, then newest
// first.
func preferred(a, b *Manifest) int {
	if a.Callable() != b.Callable() {
		return before(a.Callable())
	}
	x, xErr := semver.StrictNewVersion(a.Semver)
	y, yErr := semver.StrictNewVersion(b.Semver)
	switch {
	case xErr != nil || yErr != nil:
		return cmp.Compare(b.Semver, a.Semver)
	case (x.Prerelease() == "") != (y.Prerelease() == ""):
		return before(x.Prerelease() == "")
	}
	return y.Compare(x)
}

func before(a bool) int {
	if a {
		return -1
	}
	return 1
}
