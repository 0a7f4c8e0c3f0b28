package subjects

// Streams and the subjects they hold. The pools bucket is a KV bucket, as the partitions of the call
// log are (see [Part]), created as a stream so that its settings can be chosen.
const (
	PoolsBucket = "pools"
	PoolsStream = "KV_pools"
	PoolsAll    = poolsPrefix + ">"

	ChunksStream = "CHUNKS"
	ChunksAll    = "tb.chunk.>"

	AuditStream = "AUDIT"
	AuditAll    = "tb.audit.>"

	DeadStream = "DEAD"
	DeadAll    = "tb.dead.>"
)

const poolsPrefix = "$KV.pools."

// Headers of messages on the bus.
const (
	HeaderContentType = "Content-Type"
	HeaderEvent       = "Tb-Event"      // event of the call log, with the state after it
	HeaderNonce       = "Tb-Nonce"      // of the writer of an event
	HeaderKind        = "Tb-Kind"       // what the body is: accepted, response, chunk
	HeaderAttempt     = "Tb-Attempt"    // attempt of the call
	HeaderFence       = "Tb-Fence"      // of the run that made the message
	HeaderIndex       = "Tb-Index"      // of a chunk
	HeaderChunks      = "Tb-Chunks"     // how many chunks a run emitted
	HeaderInputRef    = "Tb-Input-Ref"  // name of a claim-checked input in the payload store
	HeaderOutputRef   = "Tb-Output-Ref" // name of a claim-checked output in the payload store
	HeaderPatient     = "Tb-Patient"    // the caller does without an acceptance where the outcome comes soon
	HeaderTrace       = "traceparent"   // W3C trace context
)

// Operations of the service, the op of [Service].
const (
	OpResult   = "result"
	OpCancel   = "cancel"
	OpWhy      = "why"
	OpDescribe = "describe"
	OpChunks   = "chunks"
	// OpInventory is answered by all dispatchers, the others by one of them.
	OpInventory = "inventory"
)

// Sources of audit records, the src of [Audit].
const (
	auditFromLog  = "log"  // projected from the call log, see [Part.AuditSource]
	AuditFromGate = "gate" // denials, skipped calls, locks, rollouts, late results
)

// Kinds of event in the call log, as in the keys of the calls bucket.
const (
	KindRequest = "q"
	KindJoin    = "j"
	KindClaim   = "c"
	KindOutcome = "o"
)
