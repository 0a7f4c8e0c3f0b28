// Package mcp serves the tools of a bus to MCP clients: over standard input and output with [Server.Serve], and over
// HTTP with [Server.Handler]. It speaks protocol 2026-07-28, and the earlier ones back to 2024-11-05.
//
// The gateway makes each tools/call with the client library, package toolbus. So the call is checked before it is sent,
// has one outcome by its deadline, and is safe to send again. Clients see an imported tool as its MCP server lists it,
// under a name that the APIs of models accept. They get results as that server sends them. docs/mcp.md lists the
// differences, the _meta members that a client may send with a call, and those that it gets with a result.
//
// Start reading at server.go. definition.go and listed.go make the entries of a list, call.go makes calls, and
// result.go makes answers. callers.go authenticates HTTP requests, and limits.go divides what the gateway takes among
// callers.
package mcp
