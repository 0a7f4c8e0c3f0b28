// Package mcp measures what Toolbus costs an MCP client. It compares direct calls of an MCP server with calls through a
// minimal proxy and through gateway, bus and adapter, and with a plain call. For the comparison, all of these run in
// this process over HTTP on loopback. For the memory with many waiting calls, dispatcher, executor and gateway are
// processes. The caller provides the NATS server.
package mcp
