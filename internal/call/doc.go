// Package call implements the protocol of one call as pure functions: the events of its log, the state that results
// from them, and the events that may be written next. It does no I/O and reads no clock.
//
// All durable facts about one idempotency id are in one log. A log holds attempts. An attempt is requested (q), joined
// (j), claimed (c) and decided (o):
//
//	none --q--> queued --c--> claimed --o--> decided
//	              |                            |
//	              +-----------o----------------+--q (after retryable_error)--> queued, next attempt
//
// Every write is a compare-and-set on the last sequence of the log. Every event contains the state after it, so [Fold]
// needs only the last event. To write, all processes use the same three functions:
//
//   - [Admit]: a request arrived (dispatcher);
//   - [Take]: a work message arrived (executor);
//   - [Decide]: an attempt should end (executor, deadline timer, pool guardian, cancellation).
//
// Each returns the next step and, if a write is needed, the event. A writer whose compare-and-set fails folds the
// current log and calls the function again. test/model checks these functions exhaustively. Start reading at state.go.
//
// A [Trace] holds hooks that a process runs at each [TracePoint] of a call. The tables of points in trace.go, read from
// top to bottom, show the life of a call. Hooks run in the goroutine of the call, like those of net/http/httptrace, and
// delay it. Package telemetry makes spans with them, and tests stop processes in them. An [IncomingRequest] is a
// request from the bus, with its sender.
package call
