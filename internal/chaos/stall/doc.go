// Package stall tells how late the timers of a process are, and for how long its processors were taken from it: chaos
// blames the bus for no answer that was late with them. Start with [Pulse] and [Control].
package stall
