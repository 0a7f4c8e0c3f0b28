// Package app assembles dispatcher and executor processes from the other packages, and starts and stops their parts in
// order.
//
// It is the only package that connects the packages that do not use NATS (call, dispatcher, executor, tool and audit)
// with those that do (bus, kv, streaming, rpc, workqueue, heartbeat, executorapi and writer). [Open] opens the
// connection to the bus. [RunDispatcher] and [RunExecutor] are the two processes; their comments give the shutdown
// order. Start reading at app.go, dispatcher.go and executor.go.
package app
