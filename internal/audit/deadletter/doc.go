// Package deadletter publishes and lists calls that could not be run, in stream DEAD.
//
// [Publish] keeps a call that executors gave up; [DeadLetters] reads them, and [Retries] finds in the audit log the
// later calls for the same. Start reading at deadletter.go.
package deadletter
