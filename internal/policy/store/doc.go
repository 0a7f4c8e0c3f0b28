// Package store keeps the policy of a bus in the bucket "policy": the documents of each pushed set, and one entry that
// names the documents in force. Its history is the history of the policy.
//
// A push or rollback stores the documents, and then replaces the entry by compare-and-set, so a set is in force as a
// whole or not at all. Each dispatcher asks the leader of the bucket for the entry five times a second. A [Store] that
// has not confirmed its entry within the last 900 ms returns [policy.ErrStale] instead of a policy, so no dispatcher
// decides by a set that was replaced more than 1 s ago. The process that takes a push also stores the set as it has
// parsed it, for the others.
//
// After a push, the process removes the documents that no version names and that are older than the version in force.
// So that it removes none that another process is about to put in force, [Store.Check] writes those again that are
// older. A history that lacks the version in force comes from a server that is behind, and nothing is removed by it.
// Start reading at store.go.
package store
