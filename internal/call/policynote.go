package call

import (
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// PolicyNote has the digests of a policy set in a short form, for the header of events: three SHA-256 in base64, with
// dots between them. It is "" if no policy decided.
type PolicyNote string

// NotePolicy returns the short form of the digests of a policy set.
func NotePolicy(v envelope.PolicyVersions) PolicyNote {
	if v == (envelope.PolicyVersions{}) {
		return ""
	}
	note := make([]byte, 0, 3*noteDigits+2)
	for i, digest := range [...]string{v.Roles, v.Lanes, v.ToolRegistry} {
		if i > 0 {
			note = append(note, '.')
		}
		var sum [hashBytes]byte
		if n, err := hex.Decode(sum[:], []byte(digest[:min(len(digest), 2*hashBytes)])); err == nil && n == hashBytes {
			note = base64.RawURLEncoding.AppendEncode(note, sum[:])
		} else {
			note = append(note, digest...) // no dispatcher writes this
		}
	}
	return PolicyNote(note)
}

const (
	hashBytes  = 32
	noteDigits = 43 // of a hash in base64
)

// Versions returns the digests in hexadecimal.
func (n PolicyNote) Versions() (v envelope.PolicyVersions) {
	if n == "" {
		return v
	}
	var digests [3]string
	rest := string(n)
	for i := range digests {
		digests[i], rest, _ = strings.Cut(rest, ".")
		digests[i] = longHash(digests[i])
	}
	return envelope.PolicyVersions{Roles: digests[0], Lanes: digests[1], ToolRegistry: digests[2]}
}

// longHash returns a hash in base64 in hexadecimal, and any other text as it is.
func longHash(digest string) string {
	var sum [hashBytes]byte
	if len(digest) != noteDigits {
		return digest
	}
	if _, err := base64.RawURLEncoding.Strict().Decode(sum[:], []byte(digest)); err != nil {
		return digest
	}
	return hex.EncodeToString(sum[:])
}
