// Package tool defines tools: their manifests, the invocation and result of a run, its errors, and the interface of the
// adapters that run tools.
//
// A tool is a folder with a tool.yaml. The name of the folder is the tool id, or its token (subjects.Token). [Load]
// reads a folder of such folders into a [Set], or returns the problems of all of them. [Lint] returns warnings, too,
// and [Fix] mends what has a derived solution. One JSON Schema, manifest.json, describes all fields
// (docs/manifest.md). Each transport has an adapter in
// a package of its own (process, native, mcp), which passes the conformance suite of package tooltest. A failed run
// returns one of the error types of errors.go, and [Classify] maps each to the error taxonomy.
package tool
