package call

import (
	"cmp"
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// soon is more time than a dispatcher that serves takes to decide an attempt after its deadline.
const soon = time.Second

// LateBy returns how long after its deadline the decided attempt a was decided because of that. It returns 0 if a
// dispatcher served at the deadline.
func LateBy(a Attempt) time.Duration {
	d := a.Decision
	late := d.At.Time().Sub(a.Due())
	if late <= soon || d.By != ByDeadline && !d.expired() {
		return 0
	}
	return late
}

// expired reports whether an executor that did not run the attempt decided it, because its deadline had passed.
func (d Decision) expired() bool {
	return d.By == ByExecutor && d.Fence == 0 &&
		(d.NotTaken || d.Code == envelope.CodeTimeout || d.Code == envelope.CodeTimeoutUnknown)
}

// unserved returns the message and the fix of an attempt for a late decision. A longer timeout would not have helped.
func unserved(a Attempt, message, fix string) (string, string) {
	late := LateBy(a)
	switch code := a.Decision.Code; {
	case late == 0 || a.Undecoded || code == envelope.CodeTimeout && a.Decision.NotTaken:
		return message, fix
	case code == envelope.CodeTimeoutUnknown:
		fix = "find out whether the effect took place before calling again with a new key"
	default:
		fix = "call again with the same key"
	}
	return fmt.Sprintf("%s; the call was decided %s after the deadline, when a dispatcher was there again: no dispatcher "+
		"served in between", cmp.Or(message, "no outcome came by the deadline"), late.Round(time.Millisecond)), fix
}

// RanBefore says of a claim that another executor may have run the attempt before.
const RanBefore = "an executor that ran it before may be lost"

// LateFirst reports whether c is the first claim of attempt a, and came late enough for a second run. Executors take a
// call from another one after the lease. A pure or idempotent call has no claim at its first run.
func LateFirst(s State, a Attempt, c *Claim, lease time.Duration) bool {
	return c.Count == 1 && s.MayRunAgain() && cmp.Or(c.At, a.At).Time().Sub(a.At.Time()) >= lease
}

// LostBefore returns a sentence that says that attempt a may have run before its last claim, or "".
func LostBefore(s State, a Attempt, lease time.Duration) string {
	if c := a.Claim; c != nil && (c.Count > 1 || LateFirst(s, a, c, lease)) {
		return fmt.Sprintf("Claim %d: %s.", c.Count, RanBefore)
	}
	return ""
}
