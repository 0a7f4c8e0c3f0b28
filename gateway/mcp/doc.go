// Package mcp lets MCP clients call the tools of a bus: over standard input and output with [Door.Serve], over HTTP
// with [Door.Handler], in protocol 2026-07-28 and those before it back to 2025-03-26.
//
// A call through it is a call of the client library, package toolbus, and nothing else: checked before it is sent, with
// one outcome by its deadline, safe to ask for again. docs/mcp.md says what a client may say beside the arguments of a
// call, and what it is told beside the result.
package mcp
