// Package executor is an executor of chaos whose one tool is a function of its own process: hundreds of calls a second
// are made of it, where a program for each would use up the machine.
package executor
