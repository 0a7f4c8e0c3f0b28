// Package kv is the call log in a JetStream key-value bucket: compare-and-set writes, reads, the codec, the follower.
//
// [Log] is bucket "calls", one log per idempotency id, every write a compare-and-set on that log (see package call). It
// is created as a stream, because the bucket must have per-message expiry without expiry markers, which the KV API
// cannot configure; the stock `nats kv` tools read it all the same. [Follower] reads the events of a partition in
// order, and notices when a server has lost the end of it. Start reading at log.go, event.go and follower.go.
package kv
