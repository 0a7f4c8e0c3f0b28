package call

import (
	"hash/maphash"
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
