// Package executor is an executor for chaos runs whose only tool is a Go function. It can run hundreds of calls per
// second, for which a process per call would overload the machine.
package executor
