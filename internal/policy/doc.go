// Package policy reads policy sets: which calls a deployment allows. It does no I/O but through an fs.FS.
//
// A policy set is three documents: policy/roles.yaml says which lanes a role may use, policy/lanes.yaml which tools a
// lane allows, and tools/tool_registry.yaml which tools are registered. [ReadFolder] reads the documents of a folder,
// and [Parse] checks them against their JSON Schemas and against each other. All problems are reported at once.
package policy
