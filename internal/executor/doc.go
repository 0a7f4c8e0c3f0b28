// Package executor claims calls, runs tools, and stores outcomes.
//
// [Executor.Handle] handles one work message: it claims the attempt if the effect class requires that, runs the tool
// within its limits, and decides the attempt. It acknowledges the message only when the call log holds the outcome of
// the attempt. Otherwise it naks the message, and the server delivers it again.
//
// A message becomes a job, which lasts until the message is acknowledged or returned. A job has at most one run of its
// tool. The run returns a verdict: how the attempt must end.
//
// The package does not use NATS: the log, the streams and the clock are small interfaces, so that it runs under
// testing/synctest. Start reading at executor.go, then job.go, take.go, run.go and verdict.go.
package executor
