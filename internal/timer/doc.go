// Package timer retries with a backoff, sleeps with a context, queues entries by time, ends runs at their deadlines,
// and keeps values that count for a time.
//
// All waits end with their context: [Sleep] waits for a duration, and [Backoff.Until] repeats a function until it is
// done. A [Heap] orders entries by due time; a [Queue] is a Heap for concurrent use. A [Lease] holds a value that
// another process may have changed since: it counts for [LeaseTime].
//
// A [Run] is a [context.Context] without a goroutine and timer of its own: all runs of a [Watchdog] share one timer.
// The Watchdog ends a run at its deadline, when it is stopped, and when its parent context ends. If a guarded run does
// not return within its grace after that, the Watchdog abandons it: its owner then continues in a new goroutine, and
// the run keeps the old one.
package timer
