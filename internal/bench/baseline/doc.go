// Package baseline has the two pipelines that `toolbus bench` compares Toolbus with on the same server.
//
// [Raw] is the leanest hand-rolled pipeline for a durable call on JetStream:
//
//	caller ──core request──▶ dispatcher ──publish, Nats-Msg-Id──▶ stream RAW_WORK
//	                                             pull consumer ──▶ worker ──KV put──▶ bucket raw_results
//	caller ◀──core reply────────────────────────────────────────── worker ──async──▶ stream RAW_AUDIT
//
// It keeps no promise beyond durability: no schema, no identity, no deadline, no claim, no
// retries, no exactly-one outcome. The caller gets its answer when the result is stored. Nothing in
// it waits for what it does not need: the dispatcher does not wait for the acknowledgement of
// its publish (a failed one is answered with an error), and the audit record is asynchronous.
//
// [Floor] is the floor of Toolbus's protocol: what its promises cost before any code that keeps them. It
// makes the same durable writes as a call of a pure tool, and nothing else:
//
//	caller ──core request──▶ dispatcher ──event q, compare-and-set──▶ stream FLOOR_LOG
//	                                         pull consumer ──▶ worker ──event o, compare-and-set──▶ FLOOR_LOG
//	caller ◀──core reply────────────────────────────────────── worker
//	FLOOR_LOG ──headers of every event──▶ dispatcher ──bundle, compare-and-set──▶ stream FLOOR_AUDIT
//
// The streams have the settings of Toolbus's own, the subjects their shape, and every event a TTL, a message id and a
// header as large as the state that Toolbus writes. There are no envelopes, schemas, hashes, deadlines, claims or
// retries. Both use the client library's ordinary means, so that the difference of the two is what the protocol costs,
// and that of Toolbus and the floor what its code does.
package baseline
