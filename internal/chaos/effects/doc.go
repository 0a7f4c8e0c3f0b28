// Package effects provides the tools of a chaos run, and the ledger to which they append a line for each start and each
// effect. The ledger is a file, and an effect is synced before the tool continues. It is independent of Toolbus, so the
// checker can compare the real effects with those that Toolbus reports.
//
// The tools are programs ([Run]). The input of a call determines what the tool does, how long it takes and how it
// fails.
package effects
