// Package policy decides which calls are allowed. It does no I/O.
//
// A policy set is three documents: policy/roles.yaml says which lanes a role may use, policy/lanes.yaml which tools a
// lane allows, and tools/tool_registry.yaml which tools are registered. [ReadFolder] reads the documents of a folder,
// and [Parse] checks them against their JSON Schemas and against each other. All problems are reported at once.
//
// [Compile] joins a set with the manifests of a deployment to a [Snapshot]. An entry of the registry restricts its
// manifest and never widens it ([Merge]). [Snapshot.Decide] decides a call in the order of the steps of the gateway
// contract (003): what nothing allows is denied, and one rule that forbids a call is enough. [Snapshot.WhoCan] and
// [Snapshot.Can] list what is allowed. Start reading at decide.go.
package policy
