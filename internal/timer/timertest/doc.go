// Package timertest tells tests how long the machine has delayed their timers. Start reading at stall.go.
package timertest
