package call

import (
	"errors"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Instance returns the instance that made a nonce: what stands before its first dot. Instances are
// processes; the keys of claims and decisions end with theirs, so that the server can enforce who wrote them.
func Instance(nonce string) string {
	instance, _, _ := strings.Cut(nonce, ".")
	return instance
}

// ErrForeign means that an event reads well and was not written by the rules of this package. It counts
// as little as a message that is no event: the log is what it was before.
var ErrForeign = errors.New("an event that the log does not allow")

// Allows returns [ErrForeign] unless e may be the next event of the log s. The zero State allows what [Event.Check]
// does.
//
// Executors write claims and decisions, and each of these carries the whole state. If the log is [Pinned.Bound], such
// an event must differ from s in that claim or decision alone. So the first claim of an attempt and its first decision
// stand, and no executor becomes the claimer by writing that it is. Such an event cannot bind a log. Dispatchers alone
// can write requests and joins: these are taken as they are. Every reader of a log applies this rule to each of its
// events in order, so all readers find the same state.
func (s State) Allows(e Event) error {
	if err := e.Check(); err != nil {
		return err
	}
	switch {
	case s.Empty(), e.Kind == Requested, e.Kind == Joined:
		return nil
	case !s.Bound() && e.State.Bound():
		return ErrForeign
	case !s.Bound():
		return nil
	}
	before := e.State.with(e.Attempt, func(a *Attempt) {
		if e.Kind == Claimed {
			a.Claim = nil
		} else {
			a.Decision = nil
		}
	})
	if !s.same(before) {
		return ErrForeign
	}
	return nil
}

// same compares two states in the members that this build knows. A newer build may add others to what it writes again.
// [Attempt.Undecoded] is what a reader makes of the log, and not compared.
func (s State) same(o State) bool {
	s.Pinned.More, o.Pinned.More = "", ""
	return s.Pinned == o.Pinned && slices.EqualFunc(s.Attempts, o.Attempts, Attempt.same)
}

func (a Attempt) same(o Attempt) bool {
	return a.N == o.N && a.Owner == o.Owner && slices.Equal(a.Joined, o.Joined) && a.Nonce == o.Nonce &&
		a.Admitted == o.Admitted && a.At == o.At && a.Deadline == o.Deadline && a.Priority == o.Priority &&
		a.Overflow == o.Overflow && a.Ignored == o.Ignored && a.Strict == o.Strict &&
		sameWithout(a.Claim, o.Claim, func(c *Claim) { c.More = "" }) &&
		sameWithout(a.Decision, o.Decision, func(d *Decision) { d.More = "" })
}

// sameWithout compares what two pointers lead to, without what strip removes.
func sameWithout[T comparable](a, b *T, strip func(*T)) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	strip(&x)
	strip(&y)
	return x == y
}

// Check returns [ErrForeign] for an event that no writer could have derived from a log: one about an
// attempt that was never requested, a claim of what is decided, and a decision that the log does not
// leave to its writer. A decision on an attempt that needs a claim comes from whoever holds the claim;
// others may only say that it ran out of time, was cancelled or lost, or that the tool confirmed it, for which it must
// declare a lookup. Check sees the event alone; see [State.Allows].
func (e Event) Check() error {
	a, ok := e.State.Attempt(e.Attempt)
	allowed := ok && a.Nonce != ""
	switch e.Kind {
	case Requested:
		allowed = allowed && a.Open() && a.Claim == nil && a.N == e.State.Last().N
	case Joined:
		allowed = allowed && a.Admitted > 0 && a.Open()
	case Claimed:
		allowed = allowed && a.Admitted > 0 && a.Open() && a.claimedBy(e.Nonce)
	case Decided:
		allowed = allowed && a.Admitted > 0 && !a.Open() && a.Decision.Nonce == e.Nonce && mayDecide(e.State, a)
	default:
		allowed = false
	}
	if !allowed {
		return ErrForeign
	}
	return nil
}

// mayDecide reports whether the log leaves the decision of a to its writer.
func mayDecide(s State, a Attempt) bool {
	d := a.Decision
	success := d.Status == envelope.Success
	switch d.By {
	case ByDeadline, ByCanceller, ByDispatcher: // none of them ran it
		return !success && d.Effect != envelope.EffectApplied && (a.Claim == nil || !s.Bound() || d.gaveUp())
	case ByExecutor:
		switch {
		case s.MayRunAgain(): // any executor of the pool may have been handed it
			return true
		case a.Claim == nil: // nothing that had a right to ran
			return !success && d.Effect != envelope.EffectApplied
		case Instance(a.Claim.Nonce) == Instance(d.Nonce):
			return !s.Bound() || d.Status != envelope.RetryableError || d.Effect == envelope.EffectNone
		case success:
			return s.Lookup != LookupNo
		}
		return d.Effect == envelope.EffectUnknown && (!s.Bound() || d.gaveUp())
	}
	return false
}

// gaveUp reports whether the decision says that nobody knows what became of the attempt, and that it is not to be
// retried: all that may be said of another's run.
func (d Decision) gaveUp() bool {
	return d.Status == envelope.TerminalError && d.Effect == envelope.EffectUnknown
}
