package call

import "strings"

// An event carries the state in a header, and a server takes 64 KiB of headers (envelope.MaxHeaders).
// A state that grew beyond it could not even be decided any more. So callers join only as long
// as there is room for further attempts, and attempts open only as long as there is room for
// their claim, their decision and the other headers.
const (
	maxJoinBytes = 44 << 10
	maxOpenBytes = 60 << 10
)

// size bounds the encoded state from above, whether as JSON or as a header. Call ids are UUIDs
// and taken to need no escapes.
func (s State) size() int {
	n := 512 // names of the members, numbers
	for _, v := range []string{
		s.Tenant, s.Tool, s.ID, s.Fn, s.Version, s.Digest, string(s.Class), s.Pool, s.Fingerprint, s.ArgsHash, s.More,
	} {
		n += quoted(v)
	}
	for _, a := range s.Attempts {
		n += a.size()
	}
	return n
}

// What an attempt takes besides its texts: names of the members and numbers. An open one needs room for the claim
// and the decision that are still to come.
const (
	openBytes    = 1024
	settledBytes = 400
	claimBytes   = 100
)

func (a Attempt) size() int {
	n := openBytes
	if !a.Open() {
		n = settledBytes + a.Decision.size()
	}
	o := a.Owner
	for _, v := range []string{
		o.CallID, o.Actor, o.Reply, o.ContentType, o.Trace, o.Parent, o.Run, o.Role, o.Lane, o.Scopes,
		a.Nonce, string(a.Priority), a.More,
	} {
		n += quoted(v)
	}
	if a.Claim != nil {
		n += claimBytes + quoted(a.Claim.By) + quoted(a.Claim.Nonce) + quoted(a.Claim.More)
	}
	for _, id := range a.Joined {
		n += joinSize(id)
	}
	return n
}

func (d Decision) size() (n int) {
	for _, v := range []string{
		d.Nonce, string(d.Status), string(d.Code), string(d.Effect), string(d.By), d.OutputHash, d.More,
	} {
		n += quoted(v)
	}
	return n
}

// joinSize is what a joined call id adds to the state.
func joinSize(callID string) int { return len(callID) + len(`"",`) }

// quoted bounds the length of v with its delimiters: some bytes become an escape, of six at most.
func quoted(v string) int {
	n := len(v) + len(`"",`)
	for i := range len(v) {
		if v[i] <= ' ' || strings.IndexByte("\"\\|%\x7f", v[i]) >= 0 {
			n += 5
		}
	}
	return n
}

// spaceLeft returns how many bytes of call ids may still join attempt a of s.
func (s State) spaceLeft() int { return maxJoinBytes - s.size() }
