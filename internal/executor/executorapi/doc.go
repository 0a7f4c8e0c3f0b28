// Package executorapi has the requests that executors send to dispatchers, with their client and server.
//
// An executor may pull its work, write its own events, heartbeats, chunks and payloads, and read payloads and chunks by
// name. For everything else it asks a dispatcher: [Client] sends the requests, and [Server.Serve] answers them.
//
// Any dispatcher may answer. The client sends a request without an answer again, to any of them, so a server can get a
// request twice. Requests that write something write it once. Start reading at client.go; messages.go has the requests
// and responses.
package executorapi
