// Package observe says what a process does with calls, step by step, to whoever watches it: traces are made of that,
// and tests stop processes there.
//
// Each step has a name, a [Point]; the tables of these in observe.go, read from top to bottom, are the life of a call.
// An [Observer] is told of steps as they happen, in the goroutine that takes them: it changes nothing, and whatever it
// takes is taken from the call.
package observe
