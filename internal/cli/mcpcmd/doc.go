// Package mcpcmd contains the commands that serve MCP clients, edit the configurations of MCP clients, and import the
// tools of MCP servers.
package mcpcmd
