// Package dispatcher takes requests through the steps of the gateway contract, and answers questions about calls.
//
// [Dispatcher.Handle] is the pipeline. Package check decides whether a request may be admitted. Package admission
// writes it to the call log, in the queue of its idempotency key. Package answer tells callers what has come of it.
// Package deadline ends the attempts that no executor ends in time; every dispatcher watches all open attempts, so that
// any of them can end the calls of one that died. Each part owns its state, behind its own locks, and imports only
// parts that come before it in the order check, answer, deadline, admission. This package owns no state but the replays
// in progress.
//
// The package does not use NATS: the log, the replies and the clock are small interfaces, so that it runs under
// testing/synctest. Start reading at dispatcher.go, then at the documentation of the four parts.
package dispatcher
