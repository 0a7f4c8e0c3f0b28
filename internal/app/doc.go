// Package app assembles dispatcher and executor processes from the other packages, and starts and stops their parts in
// order.
//
// It is the only package that connects the packages that do not use NATS (call, dispatcher, executor, tool and audit)
// with those that do (bus, kv, streaming, rpc, workqueue, heartbeat, executorapi and writer). [Open] opens the
// connection to the bus. [RunDispatcher] and [RunExecutor] are the two processes. Start reading at app.go,
// dispatcher.go and executor.go; stops.go holds the stack of stops.
//
// An executor whose context ends stops pulling work. Running calls may finish within Drain; then it kills them and
// returns their messages. After that it stops these parts, in this order:
//
//   - control: kills and requests for the place of a run
//   - background: heartbeats, confirmation of kills, locks, the clock
//   - pause before reconnects
//   - adapters: programs that they keep between calls
//
// A part that fails to start stops those that have started, in the same order. Each stop has a time limit; one that
// exceeds it is named in the error.
package app
