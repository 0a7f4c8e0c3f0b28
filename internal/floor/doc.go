// Package floor is the floor of Toolbus's protocol: what its promises cost before any code that keeps them. It
// makes the same durable writes as a call of a pure tool, and nothing else:
//
//	caller ──core request──▶ dispatcher ──event q, compare-and-set──▶ stream FLOOR_LOG
//	                                         pull consumer ──▶ worker ──event o, compare-and-set──▶ FLOOR_LOG
//	caller ◀──core reply────────────────────────────────────── worker
//	FLOOR_LOG ──headers of every event──▶ dispatcher ──bundle, compare-and-set──▶ stream FLOOR_AUDIT
//
// The streams have the settings of Toolbus's own, the subjects their shape, and every event a TTL, a message id and a
// header as large as the state that Toolbus writes. There are no envelopes, schemas, hashes, deadlines, claims or
// retries. It is written as package rawpipeline is, with the client library's ordinary means, so that the
// difference of the two is what the protocol costs, and that of Toolbus and the floor what its code does.
package floor
