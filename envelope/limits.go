package envelope

import "time"

// Limits of what travels. Reaching one is a precise error, never a truncation that goes unsaid
// and never a hang. The schemas repeat those that they can express; a test holds
// both together.
const (
	// MaxInline is the largest input or output that travels inside its envelope, in bytes. A
	// larger one goes by claim-check through the payload store.
	MaxInline = 256 << 10
	// MaxHead is the most that an envelope may hold besides its input or output, in bytes.
	MaxHead = 256 << 10
	// MaxHeadValues is the most values that a request may hold besides its input: each is judged by the
	// schema, and the largest of its own lists have 256.
	MaxHeadValues = 8192
	// MaxEnvelope is the largest envelope on the bus. It leaves the headers room below the
	// 1 MiB that a server takes in one message.
	MaxEnvelope = MaxInline + MaxHead
	// MaxPayload is the largest input or output at all, claim-checked or not.
	MaxPayload = 64 << 20
	// MaxDocument is the largest body that is decoded: an envelope with its payload in place,
	// as it arrives at a door.
	MaxDocument = MaxPayload + MaxHead

	// MaxID is the longest identifier of an actor, tool, function, session, run, role, lane or
	// span, and the longest scope, in characters.
	MaxID = 256
	// MaxToolID is the longest tool id, in characters.
	MaxToolID = 128
	// MaxLabel is the longest locale, timezone, version range or name of a scope key.
	MaxLabel = 128
	// MaxScopes is how many scopes a request may claim.
	MaxScopes = 128
	// MaxScopeKeys is how many members the scope object of a request may have.
	MaxScopeKeys = 32
	// MaxEvidence is how many pieces of evidence a request may cite.
	MaxEvidence = 64
	// MaxHosts is how many entries an allow list may have.
	MaxHosts = 256
	// MaxText is the longest piece of evidence, URL or cache key, in characters.
	MaxText = 2048

	// MinKey and MaxKey bound an idempotency key, in characters.
	MinKey = 16
	MaxKey = 256

	// MinTimeoutMS and MaxTimeoutMS bound timeout_ms.
	MinTimeoutMS = 1
	MaxTimeoutMS = 600_000
	// MaxRetryAfter is the longest back-off hint of an error: what is longer than outcomes are kept by default
	// is no advice to anybody who waits. What a tool says beyond it is cut.
	MaxRetryAfter = 24 * time.Hour
	// MinMemoryMB is the least memory a call can ask for.
	MinMemoryMB = 16

	// MaxChunk is the largest chunk of a streamed result, in bytes of its data.
	MaxChunk = 256 << 10
	// MaxHeaders is the most that the headers of one message on the bus may take, in bytes.
	MaxHeaders = 64 << 10

	// MaxMessage is the longest message or fix of an error, in bytes.
	MaxMessage = 1 << 10
	// MaxCause is the longest cause of an error.
	MaxCause = 1 << 10
	// MaxStderr is how much of a tool's stderr an error keeps: the last bytes.
	MaxStderr = 64 << 10
	// MaxErrorDetails is the largest details object that a tool may attach to an error.
	MaxErrorDetails = 64 << 10
	// MaxToolResult is the largest result of a tool that an error keeps. One of more than MaxErrorDetails goes by
	// claim-check through the payload store.
	MaxToolResult = 1 << 20
	// MaxCode is the longest error code and the longest name of a tool's own error.
	MaxCode = 64
	// MaxWarnings is how many warnings a response may carry, each at most MaxMessage long.
	MaxWarnings = 100
	// MaxSideEffects is how many side effects a response may report.
	MaxSideEffects = 1000
	// MaxAside is the most that the side effects and warnings of a response may take together, in
	// bytes of JSON. With the largest error beside them they stay below MaxHead.
	MaxAside = 96 << 10
)
