// Package dispatcher admits calls, joins duplicates, watches deadlines, and answers waiting callers. Package check has
// the stages.
//
// [Dispatcher.Handle] handles one request: the stages check it, it waits in the queue of its idempotency key, and then
// its request event is written to the call log. The dispatcher handles the requests for one key in batches, one batch
// at a time. A request with the key of an open attempt joins it. A request with the key of a decided attempt gets the
// outcome, or opens the next attempt. Every dispatcher watches the deadlines of all open attempts, so that any of them
// can end the calls of one that died.
//
// The package does not use NATS: the log, the replies and the clock are small interfaces, so that it runs under
// testing/synctest. Start reading at dispatcher.go, then check, keyqueue.go, admit.go, waiters.go and deadlines.go.
package dispatcher
