package checker

import (
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Revocation is the end of all credentials of an actor: at that time it was durable.
type Revocation struct {
	Actor string
	At    time.Time
}

const (
	// heardWithin is how long dispatchers may take to hear of a revocation, whatever keeps them from it.
	heardWithin = time.Second
	// exercised is how many requests of a revoked actor dispatchers have to refuse after that, or nothing was tried with
	// it. While servers are away none comes to a dispatcher: half of those that were revoked are enough.
	exercised = 20
)

// due is from when on nothing of the actor may be admitted.
func (r Revocation) due() time.Time { return r.At.Add(heardWithin) }

// Late counts what revoked actors asked for when dispatchers had had the time to hear that they were revoked.
type Late struct {
	Own     int `json:"own"`     // over their own connections
	Door    int `json:"door"`    // through a door
	Refused int `json:"refused"` // of both, by a dispatcher that said why
}

// Later counts that of one actor.
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

// anew is how long it takes until an event is written again that was lost on its way to the log.
const anew = 2500 * time.Millisecond

// revoked: P4. What an actor sends after dispatchers have had the time to hear that it is revoked is never admitted,
// whenever it arrives, and whatever happens to dispatchers and servers. What it sent before is not admitted later
// either, unless a message or a process was held up meanwhile, or its admission before that was lost once.
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

// admittedLate goes by the log: the time of a request is when the server stored it.
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

// excused says why an ask may have been admitted late, or that another violation says so.
func (x *index) excused(r Revocation, a *Ask, admitted time.Time, late time.Duration) bool {
	return a.Sent.After(r.due()) || a.Sent.Before(r.At) && late < anew || x.held(a.Sent, admitted)
}

// held says whether something kept a message, or a process, from getting on between two moments.
func (x *index) held(from, to time.Time) bool {
	for _, s := range x.Held {
		if s.From.Before(to) && s.To.After(from) {
			return true
		}
	}
	return !x.led(from, to)
}
