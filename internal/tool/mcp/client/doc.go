// Package client is the client's side of one MCP server: it starts or reaches it, lists its tools and calls them,
// and lets nothing of it through that is unbounded, late, or not what was asked for. It knows neither manifests nor
// calls of the bus, so the adapter and the import of tools both use it.
//
// The official Go SDK speaks the protocol, of either era. Between it and the server lies a [router], which sees every
// message: it knows by its id which call an answer belongs to, keeps that answer as it came, hands progress to its
// call, and drops what belongs to none: what is late, or comes twice. Ids and tokens are of one connection, so what a
// server said before a restart belongs to nobody after it.
//
// Start reading at conn.go; server.go is what people write of a server, stdio.go one that is a process, http.go one
// behind a URL.
package client
