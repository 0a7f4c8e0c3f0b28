// Package app assembles dispatcher and executor processes from the other packages, and starts and stops their parts in
// order.
//
// It is the only package that connects the packages that do not use NATS (call, dispatcher, executor, tool and audit)
// with those that do (bus, kv, streaming, rpc, workqueue, heartbeat, executorapi and writer). [Open] opens the
// connection to the bus. [RunDispatcher] and [RunExecutor] are the two processes. Start reading at app.go,
// dispatcher.go and executor.go; stops.go holds the stack of stops.
//
// Each process keeps the stops of its parts on a stack: a part that fails to start stops those before it. A dispatcher
// whose context ends stops these parts, in this order:
//
//   - requests: no more are taken; those in progress get 5 s, then the background ends
//   - notices of dispatchers: other dispatchers' notices of the tools that they have loaded
//   - joiners: other dispatchers' notices of joiners that left
//   - payload parts
//   - request connection
//   - requests of executors
//   - audit record: gets the rest of the log within 2 s
//   - background: deadlines, followers of the log, stores, the clock
//   - numbers: those of the deployment, which metrics show
//   - payload connection
//   - heartbeats
//   - auth callout
//   - locks
//   - keys and revocations
//   - state connection: tokens, locks, the policy, runs and heartbeats
//
// An executor whose context ends stops pulling work. Running calls may finish within Drain; then it kills them and
// returns their messages. After that it stops these parts, in this order:
//
//   - control: kills, and questions where a call runs
//   - background: heartbeats, confirmation of kills, locks, the clock
//   - pause before reconnects
//   - adapters: programs that they keep between calls
//
// The owner of the connection closes it last. Each stop has a time limit; a part that exceeds it is named in the error.
package app
