package subjects

// Streams and their subjects. The streams with the prefix KV_ are key-value buckets, like the partitions of the call
// log (see [Partition]). Toolbus creates them as streams because the KV API lacks some of the settings.
const (
	PoolsStream = "KV_pools"
	PoolsAll    = poolsPrefix + ">"

	ChunksStream = "CHUNKS"
	ChunksAll    = "tb.chunk.>"

	AuditStream = "AUDIT"
	AuditAll    = "tb.audit.>"

	SurplusStream = "SURPLUS" // records of tenants that fill more than their share of AUDIT
	SurplusAll    = surplusPrefix + ">"

	KeptStream = "KEPT" // ids of the calls in the call log, see package kv
	KeptAll    = keptListPrefix + ">"

	DeniedStream = "DENIED"
	DeniedAll    = deniedPrefix + ">"

	DeadStream = "DEAD"
	DeadAll    = "tb.dead.>"

	PayloadsStream = "PAYLOADS"
	PayloadsAll    = payloadPrefix + ">"
)

const (
	poolsPrefix    = "$KV.pools."
	surplusPrefix  = "tb.surplus."
	keptListPrefix = "tb.kept."
)

// Headers of messages on the bus. Package streaming has the headers of frames of chunks.
const (
	HeaderContentType = "Content-Type"
	HeaderEvent       = "Tb-Event"     // an event of the call log, with the state after it
	HeaderKind        = "Tb-Kind"      // kind of an answer: accepted, outcome or refusal; see internal/rpc
	HeaderRepair      = "Tb-Repair"    // decision of an operator about a damaged log, in a marker of the call log
	HeaderInputRef    = "Tb-Input-Ref" // reference of an input in the payload store
	HeaderAnswer      = "Tb-Answer"    // last tokens of the subject of the answer; see [AnswerTo] and [ExecutorAnswer]
	HeaderPatient     = "Tb-Patient"   // the caller needs no acceptance if the outcome comes soon
	// HeaderRequestInfo is set by the NATS server in messages from other accounts. It describes the sender.
	HeaderRequestInfo = "Nats-Request-Info"
	HeaderToken       = "Tb-Token"   // token of the sender; see internal/auth
	HeaderRequest     = "Tb-Request" // id of a request to the service: its copies have the same
	HeaderUntil       = "Tb-Until"   // bus time in Unix ms, after which no dispatcher acts on the request
	HeaderNow         = "Tb-Now"     // bus time in Unix ms, in answers of the service
)

// Operations of the service, the op of [Service]. docs/security.md lists who may request them.
const (
	OpResult   = "result"   // return the outcome of a call
	OpCancel   = "cancel"   // cancel a call
	OpAnswer   = "answer"   // answer a question of the tool of a running call
	OpWhy      = "why"      // explain the state of a call
	OpTrace    = "trace"    // return the events of a call
	OpDescribe = "describe" // describe the tools
	OpChunks   = "chunks"   // return stored chunks of a call
	OpPayload  = "payload"  // return a part of a payload
	OpStored   = "stored"   // return messages of the audit record
	OpHealth   = "health"   // make the checks of `toolbus doctor` that need access to streams
	OpReplay   = "replay"   // repeat the call of a dead letter

	OpTokenRenew  = "token_renew"  // renew the token of the request
	OpTokenNarrow = "token_narrow" // issue a token with fewer rights than that of the request
	OpTokenIssue  = "token_issue"  // issue a token
	OpTokenRevoke = "token_revoke" // revoke credentials
	OpTokenList   = "token_list"   // list credentials
	OpKeyRotate   = "key_rotate"   // create a signing key

	OpLock          = "lock"           // set a safety lock
	OpUnlock        = "unlock"         // clear a safety lock
	OpLockKill      = "lock_kill"      // end running calls that a safety lock covers
	OpLocks         = "locks"          // list the safety locks in force
	OpRepair        = "repair"         // decide about a call whose log is damaged
	OpRepairs       = "repairs"        // list the calls whose logs are damaged
	OpPolicyPart    = "policy_part"    // store a part of a document of a policy set
	OpPolicyPush    = "policy_push"    // put a policy set in force
	OpPolicyHistory = "policy_history" // list the versions of the policy
	OpPolicyRead    = "policy_read"    // return a part of a document of a policy set

	OpRunStart  = "run_start"  // start a run
	OpRunChange = "run_change" // pause, resume or close a run
	OpRunRepin  = "run_repin"  // pin a run to the policy in force
	OpRunShow   = "run_show"   // return the record of a run
	OpRunList   = "run_list"   // list runs

	OpInventory = "inventory" // list the loaded tools
	OpCallList  = "call_list" // list open calls
	OpExecutors = "executors" // list the executors that run
)

// Kinds of the events of the call log, as they stand in the subjects of [Key].
const (
	KindRequest = "q" // an attempt is admitted
	KindJoin    = "j" // callers join an attempt
	KindClaim   = "c" // an executor claims an attempt
	KindOutcome = "o" // an attempt is decided
)
