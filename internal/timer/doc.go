// Package timer retries with a backoff, sleeps with a context, queues entries by time, ends runs at their deadlines,
// and measures stalls of the process.
//
// No wait outlasts its context: [Sleep] waits for a time, and [Backoff.Until] until something is done. A [Heap] orders
// entries by the time at which they are due; a [Queue] is one for concurrent use.
//
// A [Run] is a [context.Context] without a goroutine and a timer of its own. All runs of a [Watchdog] share one timer.
// The watchdog ends a run at its deadline, when the run is stopped, and when the context above it ends. It abandons a
// guarded run that does not return in its grace after the end of its context. The owner of the run then continues in
// another goroutine. So a run executes in the goroutine of its owner, which is replaced if it is lost.
package timer
