package envelope

import "encoding/json"

// MetaPrefix begins the names of the members of _meta that Toolbus adds to the arguments and results of MCP calls: MCP
// itself carries no idempotency key, no deadline and no version of a tool. The MCP server of the gateway and the
// adapter for MCP servers both read and write these members.
const MetaPrefix = "io.toolbus/"

// Members of _meta in a request.
const (
	// MetaIdempotencyKey is a string. What a client gives is the key of the call; what a server is given is the id of the
	// call, the same in every run of it and in no other call.
	MetaIdempotencyKey = MetaPrefix + "idempotency_key"
	MetaDeadlineMS     = MetaPrefix + "deadline_ms" // a number: how long the request may take, from when it was sent
	MetaRunID          = MetaPrefix + "run_id"      // a string; answers say it, too
	MetaLaneID         = MetaPrefix + "lane_id"     // a string; answers say it, too
)

// MetaToolVersion is a string: in a request the version, or range of versions, that is asked for, in an answer the one
// that ran.
const MetaToolVersion = MetaPrefix + "tool_version"

// Members of _meta in an answer.
const (
	MetaCallID       = MetaPrefix + "call_id"        // a string; servers are told it, too
	MetaRef          = MetaPrefix + "ref"            // a string: what the call is asked about by
	MetaAuditEventID = MetaPrefix + "audit_event_id" // a string: of the record of the outcome, or of the refusal
	MetaAttempt      = MetaPrefix + "attempt"        // a number, from 1; servers are told it, too
	MetaOutcome      = MetaPrefix + "outcome"        // a string, such as success or terminal_error
	// MetaFinal is false where this is not how the call ends: it may still go on, and the same key finds it. Else it is
	// not there.
	MetaFinal        = MetaPrefix + "final"
	MetaCode         = MetaPrefix + "code"           // a string: of the error; servers name one of their manifest
	MetaEffect       = MetaPrefix + "effect"         // a string: none, applied or unknown
	MetaRetryAfterMS = MetaPrefix + "retry_after_ms" // a number
)

// MCPResult is the $comment of a response schema whose values are whole results of MCP tools: an object with content
// and, where there is one, structuredContent. The door hands them on as they are.
const MCPResult = MetaPrefix + "result"

// IsMCPResult reports whether a response schema has [Result] as its $comment. Outputs that break such a schema are
// passed on with a warning: the effect took place, and clients of MCP see what the server said, and judge it
// themselves.
func IsMCPResult(schema []byte) bool {
	var top struct {
		Comment string `json:"$comment"`
	}
	return json.Unmarshal(schema, &top) == nil && top.Comment == MCPResult
}

// MetaExact is an object, in the _meta of a result on the bus: by the JSON pointer of a value in the result, the JSON
// text that its server sent, which JSON of the bus cannot hold. The door puts the texts in their places and removes
// Exact.
const MetaExact = MetaPrefix + "exact"

// MetaInexact is the beginning of a warning that names a value of Exact.
const MetaInexact = "JSON of the bus cannot hold "

// Members of _meta that servers know which are written for Toolbus.
const (
	// MetaInvocation is an object, in a request to a server whose manifest asks for it: all that any other tool is told
	// of a call, as programs read it.
	MetaInvocation = MetaPrefix + "invocation"
	// MetaChunk is an object, in a progress notification: {"kind": "data", "progress" or "log", "data": any JSON}.
	MetaChunk       = MetaPrefix + "chunk"
	MetaDetails     = MetaPrefix + "details"      // an object: of an error
	MetaSideEffects = MetaPrefix + "side_effects" // a list of objects: what the call has changed
	MetaWarnings    = MetaPrefix + "warnings"     // a list of strings
	MetaAbsent      = MetaPrefix + "absent"       // true: a lookup has found nothing under the key
)

// MCPSearchTool is the name of the tool that finds tools, which no other tool may have.
const MCPSearchTool = "toolbus_search_tools"

// MCPUndescribed is the description of a tool whose server gives it none: manifests must have one.
func MCPUndescribed(server, tool string) string {
	return "The tool " + tool + " of the MCP server " + server + "."
}
