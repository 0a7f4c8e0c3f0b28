package call

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"maps"
	"net/url"
	"slices"
)

// ScopeNote has the scope keys that a call needed in the form of a URL's query. The value of a key is the SHA-256 of
// the value in the call, in base64. It is empty if that is empty.
type ScopeNote string

// maxScopeNote is the largest length of a ScopeNote in bytes, because an event has it in a header. It has room for 40
// keys of 40 characters.
const maxScopeNote = 4 << 10

// NoteScope returns the note of a scope. It leaves out keys for which it has no room, the last ones in their order.
func NoteScope(scope map[string]string) (note ScopeNote) {
	for _, key := range slices.Sorted(maps.Keys(scope)) {
		hash := ""
		if value := scope[key]; value != "" {
			sum := sha256.Sum256([]byte(value))
			hash = base64.RawURLEncoding.EncodeToString(sum[:])
		}
		pair := url.QueryEscape(key) + "=" + hash
		if note != "" {
			pair = "&" + pair
		}
		if len(note)+len(pair) > maxScopeNote {
			break
		}
		note += ScopeNote(pair)
	}
	return note
}

// Hashes returns the keys with the hashes of their values in hexadecimal, or nil if the note is empty. It ignores what
// no dispatcher writes.
func (n ScopeNote) Hashes() map[string]string {
	if n == "" {
		return nil
	}
	pairs, _ := url.ParseQuery(string(n))
	all := make(map[string]string, len(pairs))
	for key, values := range pairs {
		if sum, err := base64.RawURLEncoding.DecodeString(values[0]); err == nil {
			all[key] = hex.EncodeToString(sum)
		}
	}
	return all
}
