// Package app wires a dispatcher process and an executor process, and starts and stops them in order.
//
// It is the only package that joins the cores, which do not use NATS (packages call, dispatcher, executor, tool and
// audit), with the packages that do (bus, kv, streaming, rpc, workqueue, heartbeat, executorapi and writer). [Open]
// opens the connection to the bus. [RunDispatcher] and [RunExecutor] are the two processes; the comment of each gives
// its shutdown order. Start reading at app.go, dispatcher.go and executor.go.
package app
