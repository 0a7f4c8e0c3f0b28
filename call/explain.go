package call

import (
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Explain says in one sentence what attempt n of s waits for, or why it ended as it did.
func Explain(s State, n int, now time.Time) string {
	a, ok := s.Attempt(n)
	if !ok {
		return "No such attempt is known."
	}
	who := fmt.Sprintf("Attempt %d of %s %s (%s)", a.N, s.Tool, s.Version, s.Fn)
	left := a.Due().Sub(now).Round(time.Millisecond)
	switch {
	case a.Open() && left <= 0:
		return fmt.Sprintf("%s is past its deadline by %s and waits for a guardian to time it out.", who, -left)
	case a.Open() && a.Claim != nil:
		return fmt.Sprintf("%s was claimed by executor %s (claim %d) and has %s until its deadline.", who, a.Claim.By, a.Claim.Count, left)
	case a.Open() && !s.Repeatable():
		return fmt.Sprintf("%s waits for a free slot in pool %s with %s priority and has %s until its deadline.", who, s.Pool, a.Priority, left)
	case a.Open():
		return fmt.Sprintf("%s waits for, or runs in, a slot of pool %s with %s priority (%s calls run without a claim) and has %s until its deadline.",
			who, s.Pool, a.Priority, s.Class, left)
	}
	return explainEnd(who, s, a)
}

func explainEnd(who string, s State, a Attempt) string {
	d := a.Decision
	after := d.At.Time().Sub(a.At.Time()).Round(time.Millisecond)
	if d.Status == envelope.Success {
		return fmt.Sprintf("%s succeeded after %s; its outcome is kept and replayed.", who, after)
	}
	next := "the same key returns this outcome and does not run again"
	if d.Status == envelope.RetryableError {
		next = "the same key may be asked again and runs as the next attempt"
		if s.Last().N > a.N {
			next = fmt.Sprintf("attempt %d followed", s.Last().N)
		}
	}
	return fmt.Sprintf("%s ended after %s with %s (%s), decided by the %s, effect %s: %s; %s.",
		who, after, d.Status, d.Code, d.By, d.Effect, envelope.Lookup(d.Code).LikelyCause, next)
}
