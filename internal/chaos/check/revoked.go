package check

import "time"

// Revocation is the end of all credentials of an actor: since At, dispatchers have said so.
type Revocation struct {
	Actor string
	At    time.Time
}

// heardWithin is how long dispatchers may take to hear of a revocation, while nothing keeps them from it.
const heardWithin = time.Second

// revoked: P4. What an actor sends after dispatchers have had the time to hear that it is revoked is not admitted.
func revoked(x *index) (found []Violation) {
	since := map[string]time.Time{}
	for _, r := range x.Revoked {
		if at, ok := x.heard(r.At); ok {
			since[r.Actor] = at
		}
	}
	for _, a := range x.Asks {
		at, ok := since[a.Actor]
		if !ok || !a.Sent.After(at) {
			continue
		}
		if l := x.logs[a.Ref]; l != nil {
			if _, n, ok := l.bound(a.CallID); ok {
				found = append(found, a.broken("its actor was revoked %s before it was sent, and it is bound to attempt %d",
					a.Sent.Sub(at)+heardWithin, n))
			}
		}
	}
	return found
}

// heard returns when all dispatchers must have heard of what was revoked: once they were there, and the streams led,
// for long enough. ok is false where the run ended before.
func (x *index) heard(at time.Time) (time.Time, bool) {
	for _, s := range x.Led {
		from := at
		if s.From.After(from) {
			from = s.From
		}
		for moved := true; moved; {
			moved = false
			for _, d := range x.Deaf {
				if d.From.Before(from.Add(heardWithin)) && d.To.After(from) {
					from, moved = d.To, true
				}
			}
		}
		if to := from.Add(heardWithin); !to.After(s.To) {
			return to, true
		}
	}
	return time.Time{}, false
}
