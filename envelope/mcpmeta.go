package envelope

import (
	"encoding/json"
	"strings"
)

// MetaPrefix begins the names of the members of _meta that Toolbus adds to the arguments and results of MCP calls: MCP
// itself carries no idempotency key, no deadline and no version of a tool. The MCP server of the gateway and the
// adapter for MCP servers both read and write these members.
const MetaPrefix = "io.toolbus/"

// Members of _meta in a request.
const (
	// MetaIdempotencyKey is a string. In a request of a client it is the key of the call. In a request to a server it is
	// the id of the call, which is the same in every run and different for every other call.
	MetaIdempotencyKey = MetaPrefix + "idempotency_key"
	MetaDeadlineMS     = MetaPrefix + "deadline_ms" // a number: time in ms, from sending the request, until its deadline
	MetaRunID          = MetaPrefix + "run_id"      // a string; answers say it, too
	MetaLaneID         = MetaPrefix + "lane_id"     // a string; answers say it, too
	MetaRoleID         = MetaPrefix + "role_id"     // a string
	MetaScope          = MetaPrefix + "scope"       // an object of strings: context.scope
	MetaReport         = MetaPrefix + "report"      // true: the answer has all members below, also that of a success
)

// MetaToolVersion is a string: in a request the wanted version or range of versions, in an answer the version that ran.
const MetaToolVersion = MetaPrefix + "tool_version"

// Members of _meta in a request to a server.
const (
	MetaDigest      = MetaPrefix + "digest" // a string: build digest of the tool, "sha256:" and 64 hex digits
	MetaTraceparent = "traceparent"         // a string: W3C traceparent, without prefix, as MCP defines it
)

// IsReservedMeta reports whether a member of _meta is never passed from a client to the server of a tool. These are
// the members of Toolbus, the trace, the progress token, and the names with a prefix that MCP reserves: its second
// label is mcp or modelcontextprotocol.
func IsReservedMeta(name string) bool {
	prefix, _, _ := strings.Cut(name, "/")
	labels := strings.Split(prefix, ".")
	return name == MetaTraceparent || name == "progressToken" || strings.HasPrefix(name, MetaPrefix) ||
		len(labels) > 1 && (labels[1] == "mcp" || labels[1] == "modelcontextprotocol")
}

// MetaEffectLevel is a string in the _meta of a tool's definition: Pure, IdempotentWrite, NonIdempotentWrite or
// ExternalSideEffects. The annotations of the definition are hints, for imported tools those of their server.
const MetaEffectLevel = MetaPrefix + "effect_level"

// Members of _meta in an answer.
const (
	MetaCallID       = MetaPrefix + "call_id"        // a string; servers are told it, too
	MetaRef          = MetaPrefix + "ref"            // a string: the reference of the call
	MetaAuditEventID = MetaPrefix + "audit_event_id" // a string: id of the audit record of the outcome or refusal
	MetaAttempt      = MetaPrefix + "attempt"        // a number, from 1; servers are told it, too
	MetaOutcome      = MetaPrefix + "outcome"        // a string, such as success or terminal_error
	// MetaFinal is false if the answer is not the outcome of the call: the call may still run, and the same key finds it.
	// Otherwise it is absent.
	MetaFinal        = MetaPrefix + "final"
	MetaCode         = MetaPrefix + "code"           // a string: code of the error; a server sends a name of its manifest
	MetaEffect       = MetaPrefix + "effect"         // a string: none, applied or unknown
	MetaRetryAfterMS = MetaPrefix + "retry_after_ms" // a number
)

// MCPResult is the $comment of a response schema whose values are whole results of MCP tools: objects with content and
// optionally structuredContent. The MCP gateway returns them unchanged.
const MCPResult = MetaPrefix + "result"

// MCPError is the member of [Details.ToolResult] that holds the JSON-RPC error of an MCP server, with code, message and
// data, if the function of the call is a method of the server ([Listed.Methods]).
const MCPError = MetaPrefix + "error"

// IsMCPResult reports whether a response schema has [MCPResult] as its $comment. An output that does not fit such a
// schema is returned with a warning, not refused: the effect took place, and MCP clients can judge the result
// themselves.
func IsMCPResult(schema []byte) bool {
	var top struct {
		Comment string `json:"$comment"`
	}
	return json.Unmarshal(schema, &top) == nil && top.Comment == MCPResult
}

// MetaExact is an object in the _meta of a result on the bus. It maps the JSON pointer of a value in the result to the
// JSON text that the MCP server sent, if I-JSON cannot hold that value. The MCP gateway puts the texts in place of the
// values, and removes MetaExact.
const MetaExact = MetaPrefix + "exact"

// MetaInexact is the prefix of a warning about a value of MetaExact.
const MetaInexact = "JSON of the bus cannot hold "

// MetaAsked is the prefix of a warning that counts questions to the caller during the call, see [OpenQuestion].
const MetaAsked = "questions to the caller: "

// Members of _meta for servers that are written for Toolbus.
const (
	// MetaInvocation is an object in a request to a server whose manifest asks for it: the request that package program
	// reads.
	MetaInvocation = MetaPrefix + "invocation"
	// MetaChunk is an object, in a progress notification: {"kind": "data", "progress" or "log", "data": any JSON}.
	MetaChunk       = MetaPrefix + "chunk"
	MetaDetails     = MetaPrefix + "details"      // an object: details of an error
	MetaSideEffects = MetaPrefix + "side_effects" // a list of objects: what the call has changed
	MetaWarnings    = MetaPrefix + "warnings"     // a list of strings
	MetaAbsent      = MetaPrefix + "absent"       // true: a lookup found no effect under the key
)

// Names of the tools with which MCP clients search for tools, and call those that they find. No other tools may have
// them.
const (
	MCPSearchTool = "toolbus_search_tools"
	MCPCallTool   = "toolbus_call_tool"
)

// MCPUndescribed returns the description for a tool whose MCP server sends no description. A manifest must have one.
func MCPUndescribed(server, tool string) string {
	return "The tool " + tool + " of the MCP server " + server + "."
}
