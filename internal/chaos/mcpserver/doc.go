// Package mcpserver is an MCP server of chaos: its tools note in the ledger what they do, as those do that are programs
// of their own, and fail in the same ways. But one process has many calls in its hands, so that what ends it ends them
// all.
package mcpserver
