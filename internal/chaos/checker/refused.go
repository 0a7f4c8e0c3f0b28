package checker

import (
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// copies checks P1: a final answer of a dispatcher holds for all copies of the request. For refusals that another
// dispatcher may contradict, such as those because of its own lag, it sets final to false.
func copies(x *index) (found []Violation) {
	bound := map[string]int{} // attempt by reference and call id
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
				continue // the token has expired since a copy was accepted; the answer states an unknown effect
			}
			if n := bound[a.Ref+a.CallID]; n > 0 && refused(r) && code(r) != envelope.CodeKeyReused {
				says := a.broken("it was refused for good with %s, and is bound to attempt %d", code(r), n)
				found = append(found, says)
			}
		}
	}
	return found
}

// attempts checks P3: a key is used up only by attempts that an executor may have started.
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

// spent returns the number of attempts until a time that an executor may have started.
func (x *index) spent(l *log, until time.Time) (n int) {
	for _, e := range l.events {
		if e.Kind == call.Requested && !e.Time.After(until) && x.startable(l, e) {
			n++
		}
	}
	return n
}

// startable reports whether an executor may have started the attempt that e opened. If a claim must come first, the log
// shows it. Otherwise an executor may have been killed after it received the attempt and before its tool started.
func (x *index) startable(l *log, e call.Entry) bool {
	a, _ := l.last.Attempt(e.Attempt)
	switch {
	case a.Claim != nil || a.Open() || len(x.startsOf(l.ref, a.N)) > 0:
		return true
	case a.Decision.By == call.ByCanceller || a.Decision.By == call.ByExecutor:
		return true // it did not end by a timeout
	}
	return l.last.Class != call.SideEffectful && e.Time.Before(a.Due())
}

// settling is how long all streams must have had leaders until the audit record has caught up.
const settling = 5 * time.Second

// lags checks P4. Dispatchers admit no calls while the audit record lags. They must admit calls again soon after the
// cause has ended.
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

// led reports whether all streams had leaders during the whole period.
func (x *index) led(from, to time.Time) bool {
	for _, s := range x.Led {
		if !s.From.After(from) && !s.To.Before(to) {
			return true
		}
	}
	return false
}
