// Package chaos tries to break Toolbus. [Run] starts a NATS server, dispatchers, executors and MCP gateways as
// processes, and calls tools of every kind through proxies that lose, delay and double messages. Meanwhile it kills,
// freezes and restarts any of the processes. Then it compares the records of callers and tools with the call log and
// AUDIT (package checker).
//
// A seed determines the calls, and the kind and time of each fault. It does not determine the course of a run, because
// the scheduling of processes differs. So a violation may need several runs of its seed to occur again.
//
// Start reading at chaos.go. cluster.go runs the processes, faults.go plans the faults, plan.go the calls, and
// driver.go makes the calls. Package evidence reads what the bus has stored; proxy, effects and checker are packages of
// their own.
package chaos
