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
	var room [3*noteDigits + 2]byte
	note := room[:0]
	for _, digest := range [...]string{v.Roles, v.Lanes, v.ToolRegistry} {
		var sum [hashBytes]byte
		if n, err := hex.Decode(sum[:], []byte(digest[:min(len(digest), 2*hashBytes)])); err != nil || n != hashBytes {
			return PolicyNote(v.Roles + "." + v.Lanes + "." + v.ToolRegistry) // no dispatcher writes this
		}
		if len(note) > 0 {
			note = append(note, '.')
		}
		note = base64.RawURLEncoding.AppendEncode(note, sum[:])
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
	roles, rest, _ := strings.Cut(string(n), ".")
	lanes, registry, _ := strings.Cut(rest, ".")
	if len(n) == 3*noteDigits+2 {
		var text [3 * 2 * hashBytes]byte
		if longHash(text[:], roles) && longHash(text[2*hashBytes:], lanes) && longHash(text[4*hashBytes:], registry) {
			all := string(text[:])
			return envelope.PolicyVersions{
				Roles: all[:2*hashBytes], Lanes: all[2*hashBytes : 4*hashBytes], ToolRegistry: all[4*hashBytes:],
			}
		}
	}
	return envelope.PolicyVersions{Roles: roles, Lanes: lanes, ToolRegistry: registry} // no dispatcher writes this
}

// longHash writes a hash in base64 to text, in hexadecimal.
func longHash(text []byte, digest string) (ok bool) {
	var sum [hashBytes]byte
	if len(digest) != noteDigits {
		return false
	}
	if _, err := base64.RawURLEncoding.Strict().Decode(sum[:], []byte(digest)); err != nil {
		return false
	}
	hex.Encode(text, sum[:])
	return true
}
