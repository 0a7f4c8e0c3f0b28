// Package mcpcli has the commands that let MCP clients call the tools of a bus.
package mcpcli
