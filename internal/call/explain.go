package call

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Explain returns one sentence that says what attempt n of s waits for, or why it ended as it did, as far as the log
// shows.
func Explain(s State, n int, now time.Time) string {
	a, ok := s.Attempt(n)
	if !ok {
		return "No such attempt is known."
	}
	who, left := name(s, a), left(a, now)
	switch {
	case a.Open() && left <= 0:
		return fmt.Sprintf("%s is past its deadline by %s and waits for a guardian to time it out.", who, -left)
	case a.Open() && a.Undecoded && a.Claim == nil && !s.MayRunAgain():
		return fmt.Sprintf("%s %s; no executor starts it any more, and it ends at its deadline, in %s.", who, undecoded,
			left)
	case a.Open() && a.Claim != nil:
		return fmt.Sprintf("%s was claimed by executor %s (%s) and has %s until its deadline.", who, a.Claim.By,
			a.Claim.describe(), left)
	case a.Open() && !s.MayRunAgain():
		return fmt.Sprintf("%s waits for a free slot in pool %s with %s and has %s until its deadline.", who,
			s.Pool, a.urgency(), left)
	case a.Open():
		return fmt.Sprintf("%s waits for, or runs in, a slot of pool %s with %s (%s calls run without a claim) "+
			"and has %s until its deadline.",
			who, s.Pool, a.urgency(), s.Class, left)
	}
	return explainEnd(who, s, a, nil)
}

// ExplainEnd is [Explain] of a decided attempt, with the error of its outcome, or nil without one. The message, cause
// and fix of the error replace those of its code.
func ExplainEnd(s State, a Attempt, e *envelope.Error) string { return explainEnd(name(s, a), s, a, e) }

// Allowed returns a sentence that says to which role, in which lane and by which policy the call of an owner was
// allowed. It returns "" if the log names no policy.
func (o Owner) Allowed() string {
	v := o.Policy.Versions()
	if v == (envelope.PolicyVersions{}) {
		return ""
	}
	return fmt.Sprintf("Role %s may make it in lane %s: policy roles %.12s, lanes %.12s, tool registry %.12s.",
		o.Role, o.Lane, v.Roles, v.Lanes, v.ToolRegistry)
}

// describe returns the number of the claim, and how many of the claims were for a run alone in an executor.
func (c *Claim) describe() string {
	if c.Alone == 0 {
		return fmt.Sprintf("claim %d", c.Count)
	}
	return fmt.Sprintf("claim %d, %d of them to run alone", c.Count, c.Alone)
}

// undecoded is the part of a sentence after the name of an attempt.
const undecoded = "has an event in the log, of an executor, that cannot be decoded, so nobody knows its effect"

func name(s State, a Attempt) string {
	return fmt.Sprintf("Attempt %d of %s %s (%s)", a.N, s.Tool, s.Version, s.Fn)
}

// urgency describes the queue in which an attempt waits.
func (a Attempt) urgency() string {
	if a.Step > 0 {
		return string(a.Priority) + " priority, after any calls of actors and tenants with fewer open,"
	}
	return string(a.Priority) + " priority"
}

func left(a Attempt, now time.Time) time.Duration { return a.Due().Sub(now).Round(time.Millisecond) }

func explainEnd(who string, s State, a Attempt, e *envelope.Error) string {
	d := a.Decision
	after := d.At.Time().Sub(a.At.Time()).Round(time.Millisecond)
	if d.Status == envelope.Success {
		if FoundEffect(s, a) {
			return fmt.Sprintf("%s succeeded after %s: %s; its outcome is kept and replayed.", who, after, FoundByLookup)
		}
		return fmt.Sprintf("%s succeeded after %s; its outcome is kept and replayed.", who, after)
	}
	next := "the same key returns this outcome and does not run again"
	switch {
	case d.Status == envelope.RetryableError:
		next = "the same key may be asked again and runs as the next attempt"
		if e != nil && e.Fix != envelope.Lookup(e.Code).Fix {
			next = e.Fix
		}
		if s.Last().N > a.N {
			next = fmt.Sprintf("attempt %d followed", s.Last().N)
		}
	case d.Effect == envelope.EffectUnknown:
		next += "; " + KnownAs(s.ID)
	}
	return fmt.Sprintf("%s ended after %s with %s (%s), decided by the %s, effect %s: %s; %s.",
		who, after, d.Status, d.Code, d.By, d.Effect, says(e, cause(s, a)), next)
}

// KnownAs says how the effect of a call can be found out. id is that of its log, which is also the key of the tool.
func KnownAs(id string) string {
	return "the tool knows the call as " + id + ": look for its effect under that name"
}

// gone is why a process that did not run a call decides it.
const gone = "the process that ran the call is gone"

// FoundByLookup says how it is known that a call has success whose executor is gone.
const FoundByLookup = gone + "; its effect was found by the lookup of the tool"

// FoundEffect reports whether the lookup of the tool confirmed the effect of a decided attempt.
func FoundEffect(s State, a Attempt) bool {
	return a.Decision.Status == envelope.Success && ByAnother(s, a)
}

// ByAnother reports whether another process than the claimer decided an attempt that may not run again.
func ByAnother(s State, a Attempt) bool {
	return !s.MayRunAgain() && a.Claim != nil && Instance(a.Claim.Nonce) != Instance(a.Decision.Nonce)
}

// cause returns the reason why attempt a ended: the likely cause of its code, or a more precise one if known.
func cause(s State, a Attempt) string {
	message, _ := Reason(s, a)
	switch {
	case message != "":
		return message
	case a.Undecoded && a.Decision.By != ByExecutor:
		return "it " + undecoded
	case a.Decision.NotTaken:
		return "its request was stored too late for any executor to take it"
	}
	return envelope.Lookup(a.Decision.Code).LikelyCause
}

// Reason returns a message and a fix for a decided attempt, if the log shows more than the code of its error. A text is
// "" where that of the code is right.
func Reason(s State, a Attempt) (message, fix string) {
	message, fix = reason(s, a)
	return unserved(a, message, fix)
}

func reason(s State, a Attempt) (message, fix string) {
	const again = "; then call again with the same key"
	switch d := a.Decision; {
	case d.Answer != "":
		return d.Answer.describe(), ""
	case d.Code == envelope.CodeTimeoutUnknown && d.By == ByDeadline && a.Claim != nil && !a.Undecoded:
		return unasked(s), ""
	case d.Code == envelope.CodeTimeout && d.By == ByDeadline && !d.NotTaken && !a.Undecoded && LateBy(a) == 0:
		return unreported(s, a), ""
	case d.BuildAbsent && d.Code == envelope.CodeToolUnknownState:
		return gone + "; no lookup was asked, because no live executor has the admitted build", ""
	case d.BuildAbsent:
		return WithoutBuild(s, nil)
	case d.Code == envelope.CodeUnavailable && d.By == ByDispatcher:
		return fmt.Sprintf("no executor of pool %s is alive, and none has been for a while", s.Pool),
			"start one with " + executorOf(s.Pool) + again
	case d.Code == envelope.CodeUnavailable && d.NotTaken:
		return fmt.Sprintf("no executor of pool %s took the call by its deadline", s.Pool),
			"start more executors with " + executorOf(s.Pool) + ", or give a larger timeout_ms" + again
	}
	return "", ""
}

// silent says of an attempt that its claimer gave no outcome.
const silent = "no outcome came by the deadline: the tool may still be running, or its executor may have died"

// unreported returns a message about an attempt that may run again, and has no outcome at its deadline. An executor
// that runs it ends the run before, so without a claim it has mostly waited.
func unreported(s State, a Attempt) string {
	if a.Claim != nil {
		return silent
	}
	return fmt.Sprintf("no executor reported a run by the deadline: the call waited for a slot of pool %s or for the "+
		"concurrency_max of its tool, or the executor that ran it is gone", s.Pool)
}

// unasked returns a message about a side-effectful attempt whose claimer gave no outcome before the deadline passed.
// The log does not show whether it died, or runs a tool that ignores the deadline.
func unasked(s State) string {
	if s.Lookup == LookupNo {
		return silent + ", and the tool declares no lookup that could say whether its effect took place"
	}
	return silent + "; no lookup was asked in time: one is asked only once the executor was silent for its lease"
}

// executorOf returns the command that starts an executor of a pool.
func executorOf(pool string) string {
	return fmt.Sprintf("`toolbus executor --pool %s` (on a bus with tokens with the --credentials of an executor of that "+
		"pool)", pool)
}

// describe returns a message about an attempt whose executor is gone, or "" for a value that this build does not know.
func (l LookupAnswer) describe() string {
	switch l {
	case LookupAbsent:
		return gone + "; the lookup of the tool was asked and found no effect, which does not prove that nothing was done"
	case LookupFailed:
		return gone + "; the lookup of the tool was asked and gave no answer"
	case LookupUndeclared:
		return gone + ", and the tool declares no lookup that could say whether its effect took place"
	case LookupLocked:
		return gone + "; the lookup of the tool was not asked, because a safety lock was in force"
	}
	return ""
}

// WithoutBuild returns a message and a fix for an attempt that ended because no live executor of its pool had the
// admitted build. The digests of the builds that the executors have instead are in here, as far as they are known.
func WithoutBuild(s State, here []string) (message, fix string) {
	message = fmt.Sprintf("no live executor of pool %s has the admitted build of %s %s, %s", s.Pool, s.Tool, s.Version,
		ShortDigest(s.Digest))
	if len(here) > 0 {
		short := make([]string, len(here))
		for i, digest := range here {
			short[i] = ShortDigest(digest)
		}
		message += "; they have " + strings.Join(short, ", ")
	}
	return message, "a key keeps the build that it was admitted for: if the effect is none, call with a new key, on " +
		"other buses than `toolbus dev` once dispatchers have the build of the executors; otherwise start executors with " +
		"that build, and call again with the same key"
}

// ShortDigest returns a digest shortened to its first 12 hex digits, as `toolbus doctor` prints it. It returns "no
// build" for "".
func ShortDigest(digest string) string {
	if digest == "" {
		return "no build"
	}
	return digest[:min(len(digest), len("sha256:")+12)]
}

// RunLocation holds the answers of the executors of a pool about an attempt.
type RunLocation struct {
	Alive int       // number of live executors; negative if unknown
	By    string    // executor that runs the attempt; "" if none answered
	Since time.Time // start of the run in bus time; set with By
	// Limits are the limits of the tool; the zero value if they are not known.
	Limits envelope.ToolLimits
}

// Explain is [Explain], but uses v to tell a waiting call from a running one if the log does not show that. It adds the
// limits of the tool that hold a call that is open.
func (v RunLocation) Explain(s State, n int, now time.Time) string {
	says := v.explain(s, n, now)
	if a, ok := s.Attempt(n); !ok || !a.Open() || v.Limits == (envelope.ToolLimits{}) {
		return says
	}
	return fmt.Sprintf("%s The tool runs at most %s at once in an executor (concurrency_max), and gives a call at "+
		"most %s (timeout_ms_max).", says, counted(v.Limits.Concurrency, "call"), timer.Text(v.Limits.Longest()))
}

func (v RunLocation) explain(s State, n int, now time.Time) string {
	a, ok := s.Attempt(n)
	switch {
	case !ok || !a.Open() || left(a, now) <= 0:
		return Explain(s, n, now)
	case a.Claim != nil && v.Alive == 0:
		return fmt.Sprintf("%s, but no executor of pool %s is alive.", strings.TrimSuffix(Explain(s, n, now), "."), s.Pool)
	case a.Claim != nil:
		return Explain(s, n, now)
	}
	who, rest := name(s, a), fmt.Sprintf("and has %s until its deadline", left(a, now))
	switch {
	case v.By != "":
		return fmt.Sprintf("%s runs at executor %s since %s (%s ago) %s.",
			who, v.By, v.Since.UTC().Format("15:04:05.000Z"), now.Sub(v.Since).Round(time.Millisecond), rest)
	case v.Alive > 0:
		return fmt.Sprintf("%s waits in the queue of pool %s (%s alive) with %s, until an executor has a free slot and "+
			"runs fewer calls of the tool than its concurrency_max, %s.",
			who, s.Pool, counted(v.Alive, "executor"), a.urgency(), rest)
	case v.Alive == 0:
		return fmt.Sprintf("%s waits in the queue of pool %s with %s %s, but no executor of pool %s is alive.",
			who, s.Pool, a.urgency(), rest, s.Pool)
	}
	return Explain(s, n, now)
}

// counted returns n and a noun, in the plural unless n is 1.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
