// Package store keeps the policy of a bus in the bucket "policy": the documents of each pushed set, and one entry that
// names the documents in force. Its history is the history of the policy.
//
// A push or rollback stores the documents, and then replaces the entry by compare-and-set, so a set is in force as a
// whole or not at all. Each dispatcher asks the leader of the bucket for the entry five times a second. A [Store] that
// has not confirmed its entry within the last 900 ms returns [policy.ErrStale] instead of a policy, so no dispatcher
// decides by a set that was replaced more than 1 s ago. The process that takes a push also stores the set as it has
// parsed it, for the others. Start reading at store.go.
package store
