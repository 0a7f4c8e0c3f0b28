package checker

import (
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Push is the push of a policy. At is when it was acknowledged. The first push of a run comes before all calls.
type Push struct {
	Versions envelope.PolicyVersions
	At       time.Time
}

// Locked is the period of a safety lock: from the acknowledgement of the lock until the unlock was sent.
type Locked struct {
	Tool string
	Span
}

// Stopped is the end of a run: it was closed, or the push of a policy has stopped it. Its calls name it with Ask.Run.
type Stopped struct {
	Run string
	At  time.Time // of the acknowledgement
}

// Governed contains what an operator did during a run.
type Governed struct {
	Pushed  []Push // in their order
	Locked  []Locked
	Stopped []Stopped
}

// decision is a request that was decided by a policy: admitted, joined, answered with a stored outcome, or refused.
type decision struct {
	what   string
	callID string
	at     time.Time
	by     envelope.PolicyVersions
}

// decisions returns all decisions that name a policy. Dispatchers of an earlier build name none.
func (x *index) decisions() (all []decision) {
	for _, e := range x.Log {
		a, _ := e.State.Attempt(e.Attempt)
		if e.Kind == call.Requested && a.Owner.Policy != "" {
			all = append(all, decision{"admitted", a.Owner.CallID, e.Time, a.Owner.Policy.Versions()})
		}
	}
	for _, r := range x.gate {
		switch r.Event {
		case audit.ToolJoined, audit.ToolReplayed, audit.ToolDenied:
			if r.Policies != (envelope.PolicyVersions{}) && (r.Count == nil || r.Count.State != audit.CountClosed) {
				all = append(all, decision{string(r.Event), r.CallID, r.Timestamp, r.Policies})
			}
		}
	}
	return all
}

// governed checks P4: from one second after another policy was pushed, nothing is decided by the one before, a locked
// tool is not admitted, and neither is a call of a run that was stopped.
func governed(x *index) (found []Violation) {
	asked := map[string]*Ask{}
	for i, a := range x.Asks {
		if first := asked[a.CallID]; first == nil || a.Sent.Before(first.Sent) {
			asked[a.CallID] = &x.Asks[i]
		}
	}
	found = x.outdated(asked)
	for _, a := range x.Asks {
		if at := x.admittedAt(&a); at.After(a.Sent) {
			if why := x.barred(&a, at); why != "" {
				found = append(found, a.broken("%s, and it was admitted", why))
			}
		}
	}
	return append(found, x.exercisedPolicies()...)
}

// outdated returns the decisions by a policy that another one had replaced.
func (x *index) outdated(asked map[string]*Ask) (found []Violation) {
	if len(x.Pushed) == 0 {
		return nil
	}
	replaced := map[envelope.PolicyVersions]time.Time{}
	for i, p := range x.Pushed {
		replaced[p.Versions] = time.Time{}
		if i > 0 {
			replaced[x.Pushed[i-1].Versions] = p.At
		}
	}
	for _, d := range x.decisions() {
		end, known := replaced[d.by]
		late := d.at.Sub(end.Add(heardWithin + time.Duration(x.SlackMS)*time.Millisecond))
		switch a := asked[d.callID]; {
		case !known:
			found = append(found, Violation{CallID: d.callID, Says: d.what + " by a policy that was not pushed"})
		case end.IsZero() || late <= 0:
		case a == nil || a.Sent.After(end.Add(heardWithin)) || !x.held(a.Sent, d.at):
			found = append(found, Violation{CallID: d.callID, Says: fmt.Sprintf(
				"%s by the policy before, %s after a second had passed since the push", d.what, late)})
		}
	}
	return found
}

// barred returns why a request must not have been admitted at a time, or "".
func (x *index) barred(a *Ask, at time.Time) string {
	for _, l := range x.Locked {
		if l.Tool == a.Tool && a.Sent.After(l.From.Add(heardWithin)) && at.Before(l.To) {
			return "its tool was locked " + a.Sent.Sub(l.From).String() + " before it was sent"
		}
	}
	for _, s := range x.Stopped {
		if s.Run != "" && s.Run == a.Run && a.Sent.After(s.At.Add(heardWithin)) {
			return "its run was stopped " + a.Sent.Sub(s.At).String() + " before it was sent"
		}
	}
	return ""
}

// admittedAt returns when a request was admitted, or the zero time. A call id that was bound before keeps its outcome.
func (x *index) admittedAt(a *Ask) time.Time {
	l := x.logs[a.Ref]
	if l == nil {
		return time.Time{}
	}
	e, _, ok := l.bound(a.CallID)
	if !ok {
		return time.Time{}
	}
	return e.Time
}

// Barred counts the refusals of requests with a code.
func (h History) Barred(code envelope.Code) (n int) {
	for _, a := range h.Asks {
		for _, r := range a.Answers {
			if r.Error != nil && r.Error.Code == code {
				n++
				break
			}
		}
	}
	return n
}

// exercisedPolicies returns a violation if the run shows nothing: it pushed policies, and one alone decided.
func (x *index) exercisedPolicies() []Violation {
	if len(x.Pushed) < 2 {
		return nil
	}
	by := map[envelope.PolicyVersions]int{}
	for _, d := range x.decisions() {
		by[d.by]++
	}
	used := 0
	for _, p := range x.Pushed {
		if by[p.Versions] > 0 {
			used++
		}
	}
	if 2*used < len(x.Pushed) {
		return []Violation{{Says: fmt.Sprintf("rule not exercised: of %d policies, %d decided a call", len(x.Pushed), used)}}
	}
	return nil
}
