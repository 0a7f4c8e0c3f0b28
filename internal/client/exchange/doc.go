// Package exchange sends the requests of a client, and waits for their answers.
//
// A [Call] is open while its caller waits. One goroutine, that of [Calls.Watch], keeps the deadlines of all open calls
// of a client and sends their requests again until they are answered. It never waits for the connection, so a
// connection that hangs keeps no caller past its deadline. An [Exchange] is one request of a call and the answers to
// it; a call that is retried has several, one after the other. Start reading at exchange.go.
package exchange
