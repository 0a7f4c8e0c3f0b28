// Package coalesce writes many messages to a NATS server with one system call. The client library nats.go writes each
// message by itself while its goroutines take turns: see docs/decisions/0029-writes-are-coalesced.md. [New] wraps the
// connection that nats.go dials.
package coalesce
