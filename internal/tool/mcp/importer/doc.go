// Package importer imports the tools of MCP servers: it connects to a server, and writes a folder with a manifest for
// each of its tools. The manifest contains the digest of the tool's definition. The package also shows how a server has
// changed its tools since, and updates the manifests that an operator approves.
//
// The package does not trust what a server sends: annotations only propose an effect class, and texts are only stored
// and shown. Start reading at import.go. servers.go merges a server into the folder, manifest.go makes the files of a
// tool, and approve.go compares definitions.
package importer
