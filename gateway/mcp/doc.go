// Package mcp lets MCP clients call the tools of a bus: over standard input and output with [Server.Serve], over HTTP
// with [Server.Handler], in protocol 2026-07-28 and those before it back to 2024-11-05.
//
// Clients see an imported tool as its MCP server lists it, under a name that APIs of models take, and results as that
// server sends them; docs/mcp.md lists the differences. Start reading at door.go; definition.go and listed.go make the
// entries of a list, call.go makes calls, and result.go makes answers.
//
// A call through it is a call of the client library, package toolbus, and nothing else: checked before it is sent, with
// one outcome by its deadline, safe to ask for again. docs/mcp.md says what a client may say beside the arguments of a
// call, and what it is told beside the result.
package mcp
