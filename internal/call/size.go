package call

import "strings"

// An event contains the state in a header, and a server accepts 64 KiB of headers (envelope.MaxHeaders). An attempt
// with a larger state could not be decided. So callers join only while the state has room for further attempts, and
// attempts are opened only while it has room for their claim, their decision and the other headers.
const (
	maxJoinBytes = 46 << 10
	maxOpenBytes = 60 << 10
)

// size returns an upper bound of the size of the encoded state, as JSON or as a header. It assumes that call ids, which
// are UUIDs, need no escapes.
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

// Sizes of an attempt without its strings: names of members, and numbers. An open attempt includes room for its future
// claim and decision.
const (
	openBytes    = 1024
	settledBytes = 400
	claimBytes   = 100
)

func (a Attempt) size() int {
	n := openBytes
	if a.Writes {
		n += maxWrites
	}
	if !a.Open() {
		n = settledBytes + a.Decision.size()
	}
	o := a.Owner
	for _, v := range []string{
		o.CallID, o.Actor, o.Reply, o.ContentType, o.Trace, o.Parent, o.Run, o.Role, o.Lane, o.Scopes,
		string(o.Policy), string(o.Scope),
		a.Nonce, string(a.Priority), a.Ignored, a.More,
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
		d.Nonce, string(d.Status), string(d.Code), string(d.Effect), string(d.By), d.OutputHash, d.Owner, d.Writes,
		d.Server, string(d.Answer), d.More,
	} {
		n += quoted(v)
	}
	return n
}

// joinSize returns the size that a joined call id adds to the state.
func joinSize(callID string) int { return len(callID) + len(`"",`) }

// quoted returns an upper bound of the length of the encoded v with its delimiters. A byte becomes an escape of at most
// six bytes.
func quoted(v string) int {
	n := len(v) + len(`"",`)
	for i := range len(v) {
		if v[i] <= ' ' || strings.IndexByte("\"\\|%\x7f", v[i]) >= 0 {
			n += 5
		}
	}
	return n
}

// spaceLeft returns the number of bytes of call ids that may still join.
func (s State) spaceLeft() int { return maxJoinBytes - s.size() }
