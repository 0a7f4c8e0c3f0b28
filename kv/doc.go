// Package kv implements the call log in JetStream key-value buckets: compare-and-set writes, reads, the codec of
// events, and the follower.
//
// A [Log] reads and writes the log of each idempotency id. Each write is a compare-and-set on that log (see
// internal/call). The bucket "calls", and one more bucket for each further partition, are created as streams: they need
// per-message TTLs without delete markers, which the KV API cannot configure. The `nats kv` tools can read them. A
// [Follower] reads all events of a partition in order, and detects when the server has lost the end of the stream.
// Start reading at log.go, event.go and follower.go.
package kv
