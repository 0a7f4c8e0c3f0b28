// Package replica reads, follows and changes entries of a NATS bucket for processes that decide by them.
//
// A [Replica] asks the leader of the bucket, so each answer was true after the question was sent. A process relies on
// an answer for [timer.LeaseTime], and after that decides nothing until the leader answers again: [Follow] asks five
// times a second. Entries change by compare-and-set ([Replica.Change]). Start reading at replica.go.
package replica
