// Package stall measures how late the timers of a process are, and how much processor time the host has taken from the
// machine. Chaos does not count answers as late that were delayed by these. Start with [Pulse] and [Control].
package stall
