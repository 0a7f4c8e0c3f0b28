package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// Story returns everything that was recorded of one call as text, ordered by time.
func (h History) Story(ref string) string {
	var s story
	for _, a := range h.Asks {
		if a.Ref == ref {
			s.ask(a)
		}
	}
	for _, c := range h.Cancels {
		if c.Ref == ref {
			s.add(c.Sent, "%s cancels %s", c.Caller, c.CallID)
			s.add(c.Done, "%s is told of the cancel: %s %s", c.Caller, c.Told, c.Failed)
		}
	}
	for _, e := range h.Log {
		if e.State.Ref() == ref {
			s.add(e.Time, "log %d: %s", e.State.Seq, event(e))
		}
	}
	for _, e := range h.Effects {
		if refOf(e) == ref {
			s.add(time.Unix(0, e.Time), "ledger: %s attempt %d, run %d/%d", e.Op, e.Attempt, e.Fence, e.PID)
		}
	}
	for _, r := range h.Audit {
		if r.Ref == ref {
			s.add(r.Timestamp, "audit %d: %s attempt %d %s %s (event %d)", r.Seq, r.Event, r.Attempt, r.Status, r.Code, r.LogSeq)
		}
	}
	slices.SortStableFunc(s, func(a, b told) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	var b strings.Builder
	for _, t := range s {
		fmt.Fprintf(&b, "%s  %s\n", t.at.UTC().Format("15:04:05.000"), t.what)
	}
	return b.String()
}

type told struct {
	at   time.Time
	what string
}

type story []told

func (s *story) add(at time.Time, format string, args ...any) {
	*s = append(*s, told{at, fmt.Sprintf(format, args...)})
}

func (s *story) ask(a Ask) {
	s.add(a.Sent, "%s asks %s (%s, due %s)", a.Caller, a.CallID, a.Scene, a.Due.UTC().Format("15:04:05.000"))
	for _, accepted := range a.Accepted {
		s.add(a.Sent, "%s is accepted for attempt %d", a.CallID, accepted.Attempt)
	}
	for _, r := range a.Answers {
		p := r.Provenance
		s.add(a.Done, "%s is told %s %s, effect %s, attempt %d, fence %d, final %t, replayed %t, %s %s", a.CallID, r.Status,
			code(r), effect(r),
			p.Attempt, p.Fence, p.Final, p.Replayed, p.AuditEventID, r.Output)
	}
	if a.Unsent != "" {
		s.add(a.Done, "%s ends with %s", a.CallID, a.Unsent)
	}
}

func event(e call.Entry) string {
	a, _ := e.State.Attempt(e.Attempt)
	text := fmt.Sprintf("%s attempt %d", e.Kind, e.Attempt)
	switch {
	case e.Kind == call.Requested:
		text += fmt.Sprintf(" by %s, call %s, due %s", a.Nonce, a.Owner.CallID, a.Due().UTC().Format("15:04:05.000"))
	case e.Kind == call.Claimed && a.Claim != nil:
		text += fmt.Sprintf(" by %s (claim %d)", a.Claim.Nonce, a.Claim.Count)
	case e.Kind == call.Decided && a.Decision != nil:
		d := a.Decision
		text += fmt.Sprintf(" by %s (%s): %s %s, effect %s, fence %d", d.Nonce, d.By, d.Status, d.Code, d.Effect, d.Fence)
	case e.Kind == call.Joined:
		text += fmt.Sprintf(", %d joined", len(a.Joined))
	}
	return text
}
