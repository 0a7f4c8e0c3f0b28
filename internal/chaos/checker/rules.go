package checker

import (
	"fmt"
	"slices"
	"strings"
)

// rule is one promise. Its function returns a violation for each case that breaks it.
type rule struct {
	name string
	says string
	find func(x *index) []Violation
}

// rules returns all rules.
func rules() []rule {
	return []rule{
		{"P1 outcome", "every answer is the stored outcome of the attempt that its call is bound to", outcomes},
		{"P1 refusal", "a call that is bound to an attempt is never refused", refusals},
		{"P2 deadline", "every caller has an answer by its deadline plus 100 ms", deadlines},
		{"P1 copies", "what was refused for good was never accepted, in no copy of the request", copies},
		{"P3 effect", "a side-effectful key has at most one effect, and every key one success", checkEffects},
		{"P3 input", "a key with another input is refused", inputs},
		{"P3 key", "the key that a tool is given is that of the call that it runs for, and of no other", keys},
		{"P3 attempts", "a key is used up only by attempts that an executor may have started", attempts},
		{"P3 fence", "every run has a fence of its own", fences},
		{"P4 recorded", "nothing runs before its request, or its claim, is in the log", recorded},
		{"P4 strict", "nothing that is to wait for the record starts before its request is there", covered},
		{"P4 lag", "nothing is refused for lag of the record once the streams have had leaders for a while", lags},
		{"P4 revoked", "nothing is admitted of an actor from one second after it was revoked, and that was tried", revoked},
		{"P4 governed", "nothing is decided by a policy a second after another was pushed, nor admitted against a lock or " +
			"the end of its run", governed},
		{"P4 denied", "nothing is refused unrecorded", denials},
		{"P5 kept", "what was accepted is in the log, and ends", kept},
		{"P5 dead", "what is given up is among the dead letters", graves},
		{"P7 honest", "the effect that is told is the one that was", honesty},
		{"P7 not started", "what is said not to have been started was neither claimed nor started", unstarted},
		{"log", "the log of a call follows the protocol", shapes},
		{"audit", "AUDIT folded is the log folded", audits},
		{"segments", "no record can be taken out, put in or changed unseen", segments},
		{"chunks", "chunks come without gap, doubling or mixing", chunks},
		{"cancel", "a cancel does what it tells", cancels},
	}
}

// Rule is the name of a rule with the promise that it checks.
type Rule struct{ Name, Says string }

// Rules returns the rules that Check applies.
func Rules() []Rule {
	var list []Rule
	for _, r := range rules() {
		list = append(list, Rule{r.name, r.says})
	}
	return list
}

// Check returns all violations in the history.
func Check(h History) []Violation {
	x := newIndex(h)
	var all []Violation
	for _, r := range rules() {
		for _, v := range r.find(x) {
			v.Rule = r.name
			all = append(all, v)
		}
	}
	slices.SortStableFunc(all, func(a, b Violation) int { return strings.Compare(a.Ref, b.Ref) })
	return all
}

// broken returns a violation by a request.
func (a *Ask) broken(format string, args ...any) Violation {
	return Violation{Ref: a.Ref, CallID: a.CallID, Says: a.Scene + ": " + fmt.Sprintf(format, args...)}
}

// broken returns a violation in a log.
func (l *log) broken(format string, args ...any) Violation {
	return Violation{Ref: l.ref, Says: fmt.Sprintf(format, args...)}
}
