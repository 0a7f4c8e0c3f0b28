package checker

import (
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Revocation is the revocation of all credentials of an actor. At is when it was known to be stored.
type Revocation struct {
	Actor string
	At    time.Time
}

const (
	// heardWithin is how long dispatchers may take to learn of a revocation, whatever the faults.
	heardWithin = time.Second
	// exercised is the number of refused requests after that from which on a revoked actor counts as tested. While servers
	// are down, no requests arrive, so only half of the revoked actors must count.
	exercised = 20
)

// due returns the time from which on no request of the actor may be admitted.
func (r Revocation) due() time.Time { return r.At.Add(heardWithin) }

// Late counts requests that revoked actors sent after heardWithin.
type Late struct {
	Own     int `json:"own"`     // over connections of their own
	Door    int `json:"door"`    // through connections of a gateway
	Refused int `json:"refused"` // of both, with code A-AUTH-REVOKED
}

// Later counts the late requests of one actor.
func (h History) Later(r Revocation) (n Late) {
	for _, a := range h.Asks {
		if a.Actor != r.Actor || !a.Sent.After(r.due()) {
			continue
		}
		if a.Door {
			n.Door++
		} else {
			n.Own++
		}
		if len(a.Answers) > 0 && code(a.Answers[0]) == envelope.CodeRevoked {
			n.Refused++
		}
	}
	return n
}

// anew is the longest time until a dispatcher writes an event again that was lost.
const anew = 2500 * time.Millisecond

// revoked checks P4. A request that an actor sends later than heardWithin after its revocation must never be admitted.
// A request that it sent before must not be admitted later either, unless a message or a process was delayed meanwhile,
// or its first write was lost.
func revoked(x *index) (found []Violation) {
	tried := 0
	for _, r := range x.Revoked {
		asked := map[string]*Ask{}
		for i, a := range x.Asks {
			if a.Actor != r.Actor {
				continue
			}
			asked[a.CallID] = &x.Asks[i]
			if l := x.logs[a.Ref]; l != nil && a.Sent.After(r.due()) {
				if _, n, ok := l.bound(a.CallID); ok {
					found = append(found, a.broken("its actor was revoked %s before it was sent, and it is bound to attempt %d",
						a.Sent.Sub(r.At), n))
				}
			}
		}
		found = append(found, x.admittedLate(r, asked)...)
		if x.Later(r).Refused >= exercised {
			tried++
		}
	}
	if of := len(x.Revoked); 2*tried < of {
		found = append(found, Violation{Says: fmt.Sprintf(
			"rule not exercised: %d of %d revoked actors were refused %d times and more", tried, of, exercised)})
	}
	return found
}

// admittedLate checks the timestamps of the requests in the log.
func (x *index) admittedLate(r Revocation, asked map[string]*Ask) (found []Violation) {
	for _, l := range x.sorted() {
		for _, e := range l.events {
			a, _ := e.State.Attempt(e.Attempt)
			late := e.Time.Sub(r.due().Add(time.Duration(x.SlackMS) * time.Millisecond))
			if e.Kind != call.Requested || a.Owner.Actor != r.Actor || late <= 0 {
				continue
			}
			if ask := asked[a.Owner.CallID]; ask == nil || !x.excused(r, ask, e.Time, late) {
				found = append(found, l.broken("call %s of %s was admitted %s too late", a.Owner.CallID, r.Actor, late))
			}
		}
	}
	return found
}

// excused reports whether an ask may have been admitted late, or is reported by revoked already.
func (x *index) excused(r Revocation, a *Ask, admitted time.Time, late time.Duration) bool {
	return a.Sent.After(r.due()) || a.Sent.Before(r.At) && late < anew || x.held(a.Sent, admitted)
}

// held reports whether a message or a process may have been delayed during the period.
func (x *index) held(from, to time.Time) bool {
	for _, s := range x.Held {
		if s.From.Before(to) && s.To.After(from) {
			return true
		}
	}
	return !x.led(from, to)
}
