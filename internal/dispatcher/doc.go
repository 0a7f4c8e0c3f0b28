// Package dispatcher admits calls, joins duplicates, watches deadlines, and answers waiting callers.
//
// [Dispatcher.Handle] takes one request through the protocol: the stages check it, the queue of its key places it, and
// the call log gets its admission. Requests for one key are served one batch after the other. A request with the key of
// an open attempt joins it; one with the key of a decided attempt gets its outcome, or opens the next attempt. Every
// dispatcher holds the deadline of every open attempt, so that any one of them can end the calls of a dead one.
//
// The package does not use NATS: the log, the replies and the clock are small interfaces, so that it runs under
// testing/synctest. Start reading at dispatcher.go, then stages.go, keyqueue.go, admit.go, waiters.go and deadlines.go.
package dispatcher
