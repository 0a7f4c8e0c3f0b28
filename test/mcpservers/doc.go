// Package mcpservers calls MCP servers through a bus: one of its own, whose effects are counted, and those that others
// have written, which `make mcp-servers` installs.
package mcpservers
