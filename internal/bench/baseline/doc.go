// Package baseline implements the two pipelines with which `toolbus-lab bench` compares Toolbus on the same server.
//
// [Raw] is the leanest hand-written pipeline for a durable call on JetStream:
//
//	caller ──core request──▶ dispatcher ──publish, Nats-Msg-Id──▶ stream RAW_WORK
//	                                             pull consumer ──▶ worker ──KV put──▶ bucket raw_results
//	caller ◀──core reply────────────────────────────────────────── worker ──async──▶ stream RAW_AUDIT
//
// It promises only durability: no schema, no identity, no deadline, no claim, no retries, and not exactly one outcome.
// The caller gets its answer when the result is stored. The dispatcher does not wait for the acknowledgement of its
// publish before it takes the next request, and answers with an error if the publish fails. The worker publishes the
// audit record asynchronously.
//
// [Floor] makes the same durable writes as a call of a pure tool in Toolbus, and nothing else. It is the lower bound
// for the cost of Toolbus's protocol:
//
//	caller ──core request──▶ dispatcher ──event q, compare-and-set──▶ stream FLOOR_LOG
//	                                         pull consumer ──▶ worker ──event o, compare-and-set──▶ FLOOR_LOG
//	caller ◀──core reply────────────────────────────────────── worker
//	FLOOR_LOG ──headers of every event──▶ dispatcher ──bundle, compare-and-set──▶ stream FLOOR_AUDIT
//
// The streams have the settings of Toolbus's own and the subjects have the same form. Every event has a TTL, a message
// id and a header as large as the state that Toolbus writes. There are no envelopes, schemas, hashes, deadlines, claims
// or retries. Both pipelines use the client library in the ordinary way. So the difference between Raw and Floor is the
// cost of the protocol, and the difference between Floor and Toolbus is the cost of Toolbus's code.
package baseline
