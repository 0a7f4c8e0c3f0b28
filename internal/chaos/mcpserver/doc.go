// Package mcpserver is the MCP server of a chaos run. Its tools write to the ledger and fail like those of package
// effects. But one process serves many calls, so its end ends all of them.
package mcpserver
