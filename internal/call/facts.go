package call

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash/maphash"
	"maps"
	"net/url"
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// attemptFacts are the members of an attempt that its request event states, and no later event may change.
type attemptFacts struct {
	n            int
	owner        Owner
	nonce        string
	admitted     uint64
	at, deadline UnixMS
	priority     envelope.Priority
	step         int
	ignored      string
	strict       bool
	writes       bool
}

func (a Attempt) facts() attemptFacts {
	return attemptFacts{
		n: a.N, owner: a.Owner, nonce: a.Nonce, admitted: a.Admitted, at: a.At, deadline: a.Deadline,
		priority: a.Priority, step: a.Step, ignored: a.Ignored, strict: a.Strict, writes: a.Writes,
	}
}

// sameFacts reports whether two states are equal in the facts that the requests state. It leaves out members of newer
// builds.
func (s State) sameFacts(o State) bool {
	s.Pinned.More, o.Pinned.More = "", ""
	return s.Pinned == o.Pinned && slices.EqualFunc(s.Attempts, o.Attempts, func(a, b Attempt) bool {
		return a.facts() == b.facts()
	})
}

// FactsHash returns a hash of what the requests of the log state. If the log is not [Pinned.Bound], [State.Allows]
// compares no more than that, so a hash is enough to judge its next event. Nobody without the seed can find another
// state with the hash.
func (s State) FactsHash(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	s.Pinned.More = ""
	maphash.WriteComparable(&h, s.Pinned)
	for _, a := range s.Attempts {
		maphash.WriteComparable(&h, a.facts())
	}
	return h.Sum64()
}

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
