// Package executor claims calls, runs tools, and stores outcomes.
//
// [Executor.Handle] takes one work message through the protocol: it claims the attempt if its effect class needs a
// claim, runs the tool under its limits, and resolves the attempt. When it acknowledges the message, the attempt has
// exactly one outcome in the call log. Otherwise it returns the message, to be delivered again.
//
// The package does not use NATS: the log, the streams and the clock are small interfaces, so that it runs under
// testing/synctest. Start reading at executor.go, then job.go and run.go.
package executor
