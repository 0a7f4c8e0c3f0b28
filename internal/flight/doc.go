// Package flight looks after the calls of a client that are on their way: a [Watcher] knows when a [Request] is sent
// again, which answer to it counts, and when the caller of a [Call] is told that there is none. Start reading at
// request.go.
package flight
