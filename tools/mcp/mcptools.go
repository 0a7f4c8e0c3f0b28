// Package mcptools holds the contracts of the tools of MCP servers that are shipped, as their servers need them, too:
// what a server lists is what the manifest says.
package mcptools

import "embed"

// Files are the folders of the tools.
//
//go:embed *_2e*/tool.yaml *_2e*/schema/*.json
var Files embed.FS
