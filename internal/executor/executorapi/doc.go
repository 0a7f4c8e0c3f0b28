// Package executorapi defines the requests that executors send to dispatchers, and implements their client and server.
//
// The permissions of an executor allow it to pull its work, to write its own events, heartbeats, chunks and payloads,
// and to read payloads and chunks by name. For everything else it asks a dispatcher: a [Client] sends the requests, and
// [Server.Serve] answers them.
//
// Any dispatcher may answer. The client repeats a request that got no answer, so dispatchers may receive it twice.
// Requests that write are idempotent. Start reading at client.go; messages.go has the requests and responses.
package executorapi
