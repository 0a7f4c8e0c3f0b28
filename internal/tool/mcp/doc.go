// Package mcp is the adapter for tools of MCP servers: stdio, and streamable HTTP.
//
// A manifest of transport mcp names a server and one of its tools. What that server is, the executor alone knows: it
// reads the file servers.json beside the folders of tools (see [Servers]), in which credentials are references to its
// own environment and files. Neither manifests nor what callers are told have any of it.
//
// Servers live longer than calls. The first call of one starts it, below a supervisor of its own; calls share it; when
// it dies the calls that it had fail, each as its class says, and the next one starts it again, later and later while
// it does not last. Nothing of one server is anything to another: each has its own processes, back-off and bounds.
//
// # What becomes of a call
//
// Before the request is written nothing can have happened: the effect is none, and the call may be made again. From
// then on only an answer says what happened; without one the effect is none for a pure tool and unknown for any other,
// and a side-effectful one is not run again by itself. That holds however the answer is lost: the server dies, hangs
// past the deadline, answers with more than it may, or with something else.
//
// The deadline and a cancel are told to the server, which may go on all the same. A server that does not answer a ping
// after that either is ended, and the calls with it.
//
// A result with isError is one of the errors that the manifest declares where the server says so, by the member
// io.toolbus/code of its _meta, by a member code of its structured content, or by a text that endpoint.errors matches;
// else it is the error tool_error, which is final.
//
// A manifest that was imported has the digest of the definition that the server gave for it. Each connection compares
// it with what the server says now, again when the server announces a change, and once a minute. A tool that has become
// another one is not called before somebody approves it.
//
// Start reading at adapter.go; pool.go is one server, result.go what its answers become.
package mcp
