// Package checker compares what callers, tools and the audit record contain of a run with the call log, and reports
// every violation of a promise. It is a pure function of a recorded history: it can be tested without a bus, and a
// history can be checked again.
//
// Each rule is one function. rules.go lists them with the promise that each belongs to: P1 one outcome, P2 by its
// deadline, P3 safe to retry, P4 on record, P5 kept, P7 an honest effect.
package checker
