// Package mcpcmd has the commands that let MCP clients call the tools of a bus, and that make
// tools of what MCP servers offer.
package mcpcmd
