// Package chaos tries to break Toolbus. [Run] starts a NATS server, dispatchers, executors and doors
// for MCP clients as processes, makes calls of every kind through proxies that lose, delay and double
// messages, and kills, freezes and restarts any of the processes meanwhile. Then it holds what callers, tools,
// the call log and AUDIT recorded against each other (package check).
//
// A seed fixes what is asked, and which trouble is made when. It does not fix the course of a
// run: that depends on how processes are scheduled, so a violation may need several runs of its
// seed to come again.
//
// cluster.go runs the processes, faults.go plans the trouble, plan.go the calls; driver.go makes
// the calls, gather.go reads what is kept; proxy, ledger and check are packages of their own.
package chaos
