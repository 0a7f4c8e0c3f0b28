// Package client is a client of one MCP server: it starts or reaches the server, and lists and calls its tools. It
// limits the size and time of everything that the server sends, and drops unexpected messages. It depends neither on
// manifests nor on calls of the bus, so the adapter and the importer both use it.
//
// The official Go SDK implements the protocol versions. A router (pendingRequests) between the SDK and the server sees
// every message. It finds the request of an answer by its id, keeps the answer unchanged, passes progress to its
// request, and drops late, repeated and unknown messages. Ids and tokens belong to one connection, so messages from
// before a restart of the server match no request.
//
// Start reading at conn.go. server.go has the configuration of a server, stdio.go a server that is a process, and
// http.go a server behind a URL.
package client
