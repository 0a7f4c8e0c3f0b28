package subjects

// Streams and the subjects they hold. The pools bucket is a KV bucket, as the partitions of the call
// log are (see [Partition]), created as a stream so that its settings can be chosen.
const (
	PoolsStream = "KV_pools"
	PoolsAll    = poolsPrefix + ">"

	ChunksStream = "CHUNKS"
	ChunksAll    = "tb.chunk.>"

	AuditStream = "AUDIT"
	AuditAll    = "tb.audit.>"

	DeniedStream = "DENIED"
	DeniedAll    = deniedPrefix + ">"

	DeadStream = "DEAD"
	DeadAll    = "tb.dead.>"

	PayloadsStream = "PAYLOADS"
	PayloadsAll    = payloadPrefix + ">"
)

const poolsPrefix = "$KV.pools."

// Headers of messages on the bus; those of frames of chunks are in package streaming.
const (
	HeaderContentType = "Content-Type"
	HeaderEvent       = "Tb-Event"     // event of the call log, with the state after it
	HeaderKind        = "Tb-Kind"      // what an answer is: accepted, outcome or refusal, see package question
	HeaderInputRef    = "Tb-Input-Ref" // name of a claim-checked input in the payload store
	HeaderAnswer      = "Tb-Answer"    // end of the subject of the answer, see [AnswerTo] and [ExecutorAnswer]
	HeaderPatient     = "Tb-Patient"   // the caller does without an acceptance where the outcome comes soon
	// HeaderRequestInfo is what the server itself says of whoever has sent a message from another account.
	HeaderRequestInfo = "Nats-Request-Info"
	HeaderToken       = "Tb-Token" // whose a request or a question is, see package auth
)

// Operations of the service, the op of [Service].
const (
	OpResult   = "result"
	OpCancel   = "cancel"
	OpWhy      = "why"
	OpDescribe = "describe"
	OpChunks   = "chunks"
	OpPayload  = "payload"
	OpStored   = "stored" // messages of the record
	OpHealth   = "health" // what doctor cannot see itself
	OpReplay   = "replay" // of a dead letter; for operators
	// Of tokens. The last four are for operators.
	OpTokenRenew  = "token_renew"
	OpTokenNarrow = "token_narrow"
	OpTokenIssue  = "token_issue"
	OpTokenRevoke = "token_revoke"
	OpTokenList   = "token_list"
	OpKeyRotate   = "key_rotate"
	// OpInventory is answered by all dispatchers, the others by one of them.
	OpInventory = "inventory"
)

// The letters of the events of the call log in its keys, see [Key].
const (
	KindRequest = "q"
	KindJoin    = "j"
	KindClaim   = "c"
	KindOutcome = "o"
)
