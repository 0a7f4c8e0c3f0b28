// Package rawpipeline is the leanest hand-rolled pipeline for a durable call on JetStream, and
// what Toolbus is measured against:
//
//	caller ──core request──▶ dispatcher ──publish, Nats-Msg-Id──▶ stream RAW_WORK
//	                                             pull consumer ──▶ worker ──KV put──▶ bucket raw_results
//	caller ◀──core reply────────────────────────────────────────── worker ──async──▶ stream RAW_AUDIT
//
// It keeps no promise beyond durability: no schema, no identity, no deadline, no claim, no
// retries, no exactly-one outcome. The caller is answered when its result is stored. Nothing in
// it waits for what it does not need: the dispatcher does not wait for the acknowledgement of
// its publish (a failed one is answered with an error), and the audit record is asynchronous.
package rawpipeline
