// Package outcome writes the outcomes of attempts, and reads them. Executors, deadline timers, guardians and cancels
// all decide with [Resolve]: it builds the response to store, and repeats [call.Decide] and the write until the log
// holds an outcome, its own or that of another process. [Load] reads an outcome that is in the log. Start reading at
// outcome.go.
package outcome
