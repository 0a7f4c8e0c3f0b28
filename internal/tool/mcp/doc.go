// Package mcp is the adapter that runs tools of MCP servers, over stdio or streamable HTTP.
//
// A manifest with transport mcp names a server and one of its tools. Only the executor knows how to reach the server:
// it reads the file servers.json in the folder of tools (see [Servers]). In that file, credentials can be references to
// environment variables and files of the executor. Manifests and answers to callers contain none of this.
//
// A server outlives a call. The first call starts it, under a supervisor of its own, and later calls share it. If it
// dies, its running calls fail, each as its effect class demands. The next call starts it again, with a growing
// back-off while it keeps dying. Each server has its own processes, back-off and limits.
//
// # The effect of a call
//
// Until the request is written, the effect is none, and the call may run again. After that only an answer shows the
// effect. Without an answer, the effect is none for a pure tool and unknown for any other, and a call of a
// side-effectful tool does not run again. That holds for every way to lose the answer: the server dies, does not answer
// by the deadline, or sends an answer that is too large or invalid.
//
// At the deadline, or after a cancel, the adapter sends a cancellation to the server, which may ignore it. If the
// server then does not answer a ping either, the adapter ends it, with all its calls.
//
// A result with isError becomes one of the errors that the manifest declares, if the server names it. The name is the
// member io.toolbus/code of _meta, a member code of the structured content, or the code of a rule in endpoint.errors
// that matches the text. Otherwise it becomes the error tool_error, which is not retryable.
//
// An imported manifest has the digest of the tool's definition at its server. The adapter compares it with the current
// definition before calls: before the first one over a connection, after the server announced a change, and otherwise
// at most once a minute. A tool whose definition has changed is not called until an operator approves it.
//
// Start reading at adapter.go. pool.go manages one server, and result.go converts its answers.
package mcp
