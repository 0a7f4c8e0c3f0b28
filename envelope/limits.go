package envelope

import "time"

// Limits of envelopes, in bytes unless stated otherwise. Exceeding one is an error with a precise code, or a truncation
// that the response reports. The schemas repeat the limits that they can express; a test compares both.
const (
	// MaxInline is the largest input or output inside an envelope. A larger one is sent through the payload store, by
	// reference (claim-check).
	MaxInline = 256 << 10
	// MaxHead is the largest size of an envelope without its input or output.
	MaxHead = 256 << 10
	// MaxHeadValues is the largest number of JSON values in a request without its input. It bounds the time of the schema
	// check.
	MaxHeadValues = 8192
	// MaxEnvelope is the largest envelope on the bus. Together with MaxHeaders it stays below the default max_payload of a
	// server, 1 MiB.
	MaxEnvelope = MaxInline + MaxHead
	// MaxPayload is the largest input or output, inline or in the payload store.
	MaxPayload = 64 << 20
	// MaxDocument is the largest body that the decoders accept: an envelope with a payload of any size in it.
	MaxDocument = MaxPayload + MaxHead

	// MaxID is the longest name of an actor, tool, function, session, run, role, lane, span or scope, in characters.
	MaxID = 256
	// MaxToolID is the longest tool id, in characters.
	MaxToolID = 128
	// MaxLabel is the longest locale, timezone, version range or name of a scope key.
	MaxLabel = 128
	// MaxScopes is the largest number of scopes in a request.
	MaxScopes = 128
	// MaxScopeKeys is the largest number of members in the scope object of a request.
	MaxScopeKeys = 32
	// MaxEvidence is the largest number of pieces of evidence in a request.
	MaxEvidence = 64
	// MaxHosts is the largest number of entries in an allow list.
	MaxHosts = 256
	// MaxText is the longest piece of evidence, URL or cache key, in characters.
	MaxText = 2048

	// MinKey and MaxKey are the shortest and longest idempotency key, in characters.
	MinKey = 16
	MaxKey = 256

	// MinTimeoutMS and MaxTimeoutMS are the smallest and largest timeout_ms.
	MinTimeoutMS = 1
	MaxTimeoutMS = 600_000
	// MaxRetryAfter is the longest back-off hint of an error, which is the default retention of outcomes. A longer hint of
	// a tool is cut to it.
	MaxRetryAfter = 24 * time.Hour
	// MinMemoryMB is the smallest memory_mb_limit, in MB.
	MinMemoryMB = 16

	// MaxChunk is the largest size of the data of one chunk.
	MaxChunk = 256 << 10
	// MaxHeaders is the largest size of the headers of one message on the bus.
	MaxHeaders = 64 << 10

	// MaxMessage is the longest message or fix of an error.
	MaxMessage = 1 << 10
	// MaxCause is the longest cause of an error.
	MaxCause = 1 << 10
	// MaxStderr is the size of the end of a tool's stderr that an error keeps.
	MaxStderr = 64 << 10
	// MaxErrorDetails is the largest details object that a tool may attach to an error.
	MaxErrorDetails = 64 << 10
	// MaxToolResult is the largest result of a tool that an error keeps. A result larger than MaxErrorDetails is sent
	// through the payload store.
	MaxToolResult = 1 << 20
	// MaxCode is the longest error code, and the longest name of an error that a tool declares.
	MaxCode = 64
	// MaxWarnings is the largest number of warnings in a response. Each has at most MaxMessage bytes.
	MaxWarnings = 100
	// MaxSideEffects is the largest number of side effects in a response.
	MaxSideEffects = 1000
	// MaxAside is the largest size of the side effects and warnings of a response together, as JSON. Together with the
	// largest error they stay below MaxHead.
	MaxAside = 96 << 10
)
