// Package mcp measures what the bus costs a client of MCP: the same server called directly, through a proxy that
// does nothing, and through door, bus and adapter, with a call of the bus itself beside them. All of it is in one
// process, over HTTP on loopback, so that the sides have the same machine; the server of NATS is the caller's.
package mcp
