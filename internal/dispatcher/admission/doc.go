// Package admission writes requests and joins to the call log. No other part of a dispatcher does.
//
// [Admission.Admit] adds a checked call to the queue of its key. One goroutine at a time serves a queue: it asks
// call.Admit what the log says, and opens an attempt, joins the open one, or answers with the stored outcome.
//
// [Queues] owns the set of queues, and each queue its arrivals, both behind a lock; a queue's line belongs to package
// answer. The lock of Queues is taken before that of a queue, and that before the one of its line. Start reading at
// place.go, then open.go and join.go.
package admission
