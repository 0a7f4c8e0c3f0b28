// Package importer makes tools of what MCP servers offer: it connects to a server, writes a folder with a manifest for
// each of its tools, and remembers, by a digest, the definition that the manifest was made from. It also shows what a
// server has changed since, and takes that over where somebody approves it.
//
// What a server says is shown and stored, and never obeyed: its annotations propose an effect class, its texts are
// texts. Start reading at import.go; servers.go merges a server into the folder, manifest.go makes the files of a
// tool, approve.go compares.
package importer
