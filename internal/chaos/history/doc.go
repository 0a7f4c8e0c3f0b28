// Package history records what the callers of a run send and receive, for the checker. A Journal stores requests with
// their answers in a file, and a Mailbox receives the answers to requests that are published without the client
// library.
package history
