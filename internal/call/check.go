package call

import (
	"errors"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Instance returns the instance of the process that made a nonce, which is the text before its first dot. The subjects
// of claims and decisions end with the instance, so that server permissions can restrict who writes them.
func Instance(nonce string) string {
	instance, _, _ := strings.Cut(nonce, ".")
	return instance
}

// ErrForeign means that an event can be decoded, but breaks the rules of this package. Readers ignore it: it does not
// change the state of the log.
var ErrForeign = errors.New("an event that the log does not allow")

// Allows returns [ErrForeign] unless e may be the next event of the log s. For the zero State it is [Event.Check].
//
// Executors write claims and decisions, and each of these events contains the whole state. If the log is
// [Pinned.Bound], such an event may differ from s only in that claim or decision. So an executor cannot change any
// other part of the state. In an unbound log, it changes no fact of the requests: nobody's name, run or policy. Only
// dispatchers can write requests and joins, which are accepted unchanged. All readers of a bound log apply this rule to
// all of its events in order, so they all find the same state.
func (s State) Allows(e Event) error {
	if err := e.Check(); err != nil {
		return err
	}
	switch {
	case s.Empty(), e.Kind == Requested, e.Kind == Joined:
		return nil
	case !s.Bound() && s.sameFacts(e.State):
		return nil
	case !s.Bound():
		return ErrForeign
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

// same reports whether two states are equal in the members that this build knows. A newer build may add others when it
// writes a state again. It does not compare [Attempt.Undecoded], which readers set.
func (s State) same(o State) bool {
	s.Pinned.More, o.Pinned.More = "", ""
	return s.Pinned == o.Pinned && slices.EqualFunc(s.Attempts, o.Attempts, Attempt.same)
}

func (a Attempt) same(o Attempt) bool {
	return a.facts() == o.facts() && slices.Equal(a.Joined, o.Joined) &&
		sameWithout(a.Claim, o.Claim, func(c *Claim) { c.More = "" }) &&
		sameWithout(a.Decision, o.Decision, func(d *Decision) { d.More = "" })
}

// sameWithout reports whether *a and *b are equal after strip, or both pointers are nil.
func sameWithout[T comparable](a, b *T, strip func(*T)) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	strip(&x)
	strip(&y)
	return x == y
}

// Check returns [ErrForeign] for an event that no correct process writes: one about an attempt that was never
// requested, a claim of a decided attempt, or a decision that its writer may not make. If an attempt needs a claim,
// only the claimer decides freely. Other processes may only decide that it timed out, was cancelled or lost, or that
// the lookup of the tool, which it must declare, confirmed the effect. Check uses only the event; see [State.Allows].
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

// mayDecide reports whether the writer of the decision of a was allowed to make it.
func mayDecide(s State, a Attempt) bool {
	d := a.Decision
	success := d.Status == envelope.Success
	switch d.By {
	case ByDeadline, ByCanceller, ByDispatcher: // none of these ran the tool
		return !success && d.Effect != envelope.EffectApplied && (a.Claim == nil || !s.Bound() || d.gaveUp())
	case ByExecutor:
		switch {
		case s.MayRunAgain(): // any executor of the pool may have run it
			return true
		case a.Claim == nil: // no executor was allowed to run it
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

// gaveUp reports whether the decision is a terminal error with unknown effect. A process may decide nothing else about
// the run of another.
func (d Decision) gaveUp() bool {
	return d.Status == envelope.TerminalError && d.Effect == envelope.EffectUnknown
}
