package tool

import (
	"fmt"

	"github.com/Masterminds/semver/v3"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// ResolveVersion says whether the tool's one version is in the range that a request asks for:
// exact, 1.x, ^1.2, ~1.2.3, ">=1 <2", * or nothing. A range does not select a pre-release
// unless it names one. The refusal names the candidate.
func (m *Manifest) ResolveVersion(want string) *envelope.Error {
	if want == "" || want == "*" || want == m.Semver {
		return nil
	}
	if len(want) > envelope.MaxLabel {
		return envelope.NewError(envelope.CodeMalformed, fmt.Sprintf("tool_version is longer than %d bytes", envelope.MaxLabel))
	}
	wanted, err := semver.NewConstraint(want)
	if err != nil {
		return envelope.NewError(envelope.CodeMalformed, fmt.Sprintf("tool_version %q is not a semver range", want)).
			WithFix("write an exact version such as " + m.Semver + ", or a range such as ^1.2, 1.x or >=1.2 <2")
	}
	have, err := semver.StrictNewVersion(m.Semver)
	if err != nil || !wanted.Check(have) {
		return envelope.NewError(envelope.CodeVersion, fmt.Sprintf("no version of %s is in %q; there is %s", m.ToolID, want, m.Semver)).
			WithFix("ask for " + m.Semver)
	}
	return nil
}
