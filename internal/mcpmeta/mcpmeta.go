// Package mcpmeta names what Toolbus says beside the arguments and results of MCP calls: members of _meta, under a
// prefix of its own, since MCP carries neither an idempotency key, nor a deadline, nor a version of a tool. The door
// for MCP clients reads and writes them, and so does the adapter for MCP servers.
package mcpmeta

import "encoding/json"

// Prefix is that of all names below.
const Prefix = "io.toolbus/"

// Members of _meta in a request.
const (
	// IdempotencyKey is a string. What a client gives is the key of the call; what a server is given is the id of the
	// call, the same in every run of it and in no other call.
	IdempotencyKey = Prefix + "idempotency_key"
	DeadlineMS     = Prefix + "deadline_ms" // a number: how long the request may take, from when it was sent
	RunID          = Prefix + "run_id"      // a string; answers say it, too
	LaneID         = Prefix + "lane_id"     // a string; answers say it, too
)

// ToolVersion is a string: in a request the version, or range of versions, that is asked for, in an answer the one
// that ran.
const ToolVersion = Prefix + "tool_version"

// Members of _meta in an answer.
const (
	CallID       = Prefix + "call_id"        // a string; servers are told it, too
	Ref          = Prefix + "ref"            // a string: what the call is asked about by
	AuditEventID = Prefix + "audit_event_id" // a string: of the record of the outcome, or of the refusal
	Attempt      = Prefix + "attempt"        // a number, from 1; servers are told it, too
	Outcome      = Prefix + "outcome"        // a string, such as success or terminal_error
	// Final is false where this is not how the call ends: it may still go on, and the same key finds it. Else it is not
	// there.
	Final        = Prefix + "final"
	Code         = Prefix + "code"           // a string: of the error; servers name one of their manifest
	Effect       = Prefix + "effect"         // a string: none, applied or unknown
	RetryAfterMS = Prefix + "retry_after_ms" // a number
)

// Result is the $comment of a response schema whose values are whole results of MCP tools: an object with content and,
// where there is one, structuredContent. The door hands them on as they are.
const Result = Prefix + "result"

// IsResult reports whether a response schema has [Result] as its $comment. Outputs that break such a schema are passed
// on with a warning: the effect took place, and clients of MCP see what the server said, and judge it themselves.
func IsResult(schema []byte) bool {
	var top struct {
		Comment string `json:"$comment"`
	}
	return json.Unmarshal(schema, &top) == nil && top.Comment == Result
}

// Exact is an object, in the _meta of a result on the bus: by the JSON pointer of a value in the result, the JSON text
// that its server sent, which JSON of the bus cannot hold. The door puts the texts in their places and removes Exact.
const Exact = Prefix + "exact"

// Inexact is the beginning of a warning that names a value of Exact.
const Inexact = "JSON of the bus cannot hold "

// Members of _meta that servers know which are written for Toolbus.
const (
	// Invocation is an object, in a request to a server whose manifest asks for it: all that any other tool is told of a
	// call, as programs read it.
	Invocation = Prefix + "invocation"
	// Chunk is an object, in a progress notification: {"kind": "data", "progress" or "log", "data": any JSON}.
	Chunk       = Prefix + "chunk"
	Details     = Prefix + "details"      // an object: of an error
	SideEffects = Prefix + "side_effects" // a list of objects: what the call has changed
	Warnings    = Prefix + "warnings"     // a list of strings
	Absent      = Prefix + "absent"       // true: a lookup has found nothing under the key
)

// SearchTool is the name of the tool that finds tools, which no other tool may have.
const SearchTool = "toolbus_search_tools"

// Undescribed is the description of a tool whose server gives it none: manifests must have one.
func Undescribed(server, tool string) string {
	return "The tool " + tool + " of the MCP server " + server + "."
}
