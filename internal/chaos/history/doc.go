// Package history records what the callers of a run sent and received, for the checker: a journal in a file, and a
// mailbox for the answers to requests that a caller published by hand.
package history
