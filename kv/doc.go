// Package kv keeps the durable records of Toolbus in JetStream key-value buckets.
//
// [Log] is the call log: bucket "calls", one log per idempotency id, every write a
// compare-and-set on that log (see package call). It is created as a stream, because the bucket
// must have per-message expiry without expiry markers, which the KV API cannot configure; the
// stock `nats kv` tools read it all the same. [Pools] holds the heartbeats of executors.
package kv
