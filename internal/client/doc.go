// Package client sends requests, resends them, keeps callers' deadlines, reads chunks and caches tool descriptions.
//
// [Client.Call] returns the response of every outcome, also of those that are no success; package toolbus makes errors
// of these. A call is made beside its caller, since the client of NATS may hold its lock as long as a frozen server
// takes, and callers have deadlines. One goroutine of a client watches all its calls: it sends requests again, and
// gives up at the deadline (inflight.go). Start reading at call.go.
package client
