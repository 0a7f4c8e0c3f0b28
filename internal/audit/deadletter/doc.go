// Package deadletter stores and lists dead letters: calls that executors could not run, in the stream DEAD.
//
// [Publish] stores a [Message] with the request of the call and the reason. [DeadLetters] reads all of them, and
// [Retries] finds in the audit log the calls that operators made from them. Start reading at deadletter.go.
package deadletter
