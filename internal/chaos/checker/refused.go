package checker

import (
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// copies: P1. What a dispatcher says for good holds for every copy of the request, whoever got it and
// whenever: what it alone cannot know, as its own lag, it says with final: false.
func copies(x *index) (found []Violation) {
	bound := map[string]int{} // attempt, by call
	for _, l := range x.sorted() {
		for _, e := range l.events {
			a, _ := e.State.Attempt(e.Attempt)
			for _, id := range append([]string{a.Owner.CallID}, a.Joined...) {
				bound[l.ref+id] = a.N
			}
		}
	}
	for _, a := range x.Asks {
		for _, r := range a.Answers {
			if effect(r) == envelope.EffectUnknown {
				continue // it does not say so: the token has ended since a copy was accepted
			}
			if n := bound[a.Ref+a.CallID]; n > 0 && refused(r) && code(r) != envelope.CodeKeyReused {
				says := a.broken("it was refused for good with %s, and is bound to attempt %d", code(r), n)
				found = append(found, says)
			}
		}
	}
	return found
}

// attempts: P3.
func attempts(x *index) (found []Violation) {
	for _, a := range x.Asks {
		l := x.logs[a.Ref]
		for _, r := range a.Answers {
			if code(r) != envelope.CodeAttempts {
				continue
			}
			if l == nil {
				found = append(found, a.broken("its attempts are said to be used up, and there is no log"))
			} else if n := x.spent(l, a.Done); n < call.MaxAttempts {
				says := a.broken("its attempts are said to be used up, and only %d may have been started", n)
				found = append(found, says)
			}
		}
	}
	return found
}

// spent counts the attempts up to then that an executor may have started.
func (x *index) spent(l *log, until time.Time) (n int) {
	for _, e := range l.events {
		if e.Kind == call.Requested && !e.Time.After(until) && x.startable(l, e) {
			n++
		}
	}
	return n
}

// startable says whether an executor may have started the attempt that e opened. Where a claim comes first, the
// log tells; others may have been in the hands of an executor that was killed before its tool began.
func (x *index) startable(l *log, e call.Entry) bool {
	a, _ := l.last.Attempt(e.Attempt)
	switch {
	case a.Claim != nil || a.Open() || len(x.startsOf(l.ref, a.N)) > 0:
		return true
	case a.Decision.By == call.ByCanceller || a.Decision.By == call.ByExecutor:
		return true // it was not time that ran out
	}
	return l.last.Class != call.SideEffectful && e.Time.Before(a.Due())
}

// settling is how long streams have had their leaders when nobody is behind any more.
const settling = 5 * time.Second

// lags: P4. Dispatchers admit nothing while the record of what was admitted is behind; that ends soon after
// what kept it behind.
func lags(x *index) (found []Violation) {
	for _, a := range x.Asks {
		for _, r := range a.Answers {
			if code(r) == envelope.CodeAuditLag && x.led(a.Sent.Add(-settling), a.Sent) {
				found = append(found, a.broken("it was refused because the record is behind"))
			}
		}
	}
	return found
}

// led says whether every stream had a leader all the time between two moments.
func (x *index) led(from, to time.Time) bool {
	for _, s := range x.Led {
		if !s.From.After(from) && !s.To.Before(to) {
			return true
		}
	}
	return false
}
