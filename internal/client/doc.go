// Package client makes calls for their callers, and asks dispatchers about calls.
//
// [Client.Call] returns the response of every outcome, also of those that are no success; package toolbus makes errors
// of these. A call is made beside its caller, since the client of NATS may hold its lock as long as a frozen server
// takes, and callers have deadlines. A [Client] is a facade: package catalogue knows the tools, package exchange sends
// requests again until they are answered, or gives up at the deadline, and package chunk reads chunks. Start reading at
// call.go.
package client
