// Package dispatcher admits calls: it checks a request, writes its admission to the call log,
// binds repeats and duplicates to the attempt they belong to, answers callers that wait, and watches
// the deadline of every open attempt.
//
// [Dispatcher.Handle] reads like the protocol; line.go serialises what one dispatcher does for
// one key; guard.go watches deadlines. The package knows no NATS: what it needs comes in as
// small interfaces, so that it runs under testing/synctest.
package dispatcher
