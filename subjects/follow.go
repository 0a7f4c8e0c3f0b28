package subjects

import "strings"

// The stream of claim-checked payloads: `tb.payload.<sha256>.<part>`.
const (
	PayloadsStream = "PAYLOADS"
	PayloadsPrefix = "tb.payload"
	PayloadsAll    = PayloadsPrefix + ".>"
)

// CallerTokens returns the tenant and actor tokens of a subject of [Call] or [Service]: what the
// bus enforces, also for names too long to be read back. ok is false for any other subject.
func CallerTokens(subject string) (tenant, actor string, ok bool) {
	t := strings.Split(subject, ".")
	switch {
	case len(t) != 5:
	case strings.HasPrefix(subject, callPrefix):
		return t[2], t[3], true
	case strings.HasPrefix(subject, svcPrefix):
		return t[3], t[4], true
	}
	return "", "", false
}
