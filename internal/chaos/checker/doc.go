// Package checker holds what callers, tools and auditors saw of a run against each other and
// against the call log, and reports every promise that was broken. It is a pure
// function over recorded histories: what it says can be tested without a bus, and a recorded
// history can be judged again.
//
// Each rule is one function, named for what must hold; rules.go lists them, under the promise that each belongs to:
// P1 one outcome, P2 by its deadline, P3 safe to retry, P4 on record, P5 kept, P7 an honest effect.
package checker
