// Package watchdog ends runs at their deadlines, when they are stopped, and when the context above them ends. Start
// with [New]. A [Run] is a [context.Context] without goroutine and timer of its own. All runs of a [Watchdog]
// share one timer.
//
// The watchdog abandons a guarded run that does not return in its grace after the end of its context. The owner of the
// run then continues in another goroutine. So a run executes in the goroutine of its owner, which is replaced if it is
// lost.
package watchdog
