package call

import (
	"errors"
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

// Check returns [ErrForeign] for an event that no writer could have derived from a log: one about an
// attempt that was never requested, a claim of what is decided, and a decision that the log does not
// leave to its writer. A decision on an attempt that needs a claim comes from whoever holds the claim;
// others may only say that it ran out of time, was cancelled or lost, or that the tool confirmed it.
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
		return !success && d.Effect != envelope.EffectApplied
	case ByExecutor:
		switch {
		case s.Repeatable(): // any executor of the pool may have been handed it
			return true
		case a.Claim == nil: // nothing that had a right to ran
			return !success && d.Effect != envelope.EffectApplied
		case Instance(a.Claim.Nonce) == Instance(d.Nonce):
			return true
		}
		return success || d.Effect == envelope.EffectUnknown
	}
	return false
}
