// Package mcpserver makes MCP servers of tools that are written for package program: what a tool streams becomes
// progress, its result structured content, and its failures results with isError that name an error of the tool's
// contract.
//
// What a server lists is what the manifests say. Start reading at server.go; call.go is one call.
package mcpserver
