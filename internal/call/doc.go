// Package call is the protocol of one call as pure functions: the events of its log, the state
// they fold to, and what may be written next. It does no I/O and reads no clock.
//
// All durable facts about one idempotency id form one log. A log holds attempts; an attempt is
// requested (q), joined (j), claimed (c) and decided (o):
//
//	none --q--> queued --c--> claimed --o--> decided
//	              |                            |
//	              +-----------o----------------+--q (after retryable_error)--> queued, next attempt
//
// Every write is a compare-and-set on the last sequence of the log, and every event carries the
// state after it, so the last event is the state: [Fold] needs nothing else. A process that wants to
// write calls one of three functions, and all processes call the same ones:
//
//   - [Admit]: a request arrived (dispatcher);
//   - [Take]: a work message arrived (executor);
//   - [Decide]: an attempt should end (executor, deadline timer, pool guardian, cancellation).
//
// Each returns the next step and, when something is to be written, the event. A writer that loses
// the compare-and-set folds what it finds and calls the function again. test/model checks these functions
// exhaustively. Start reading at state.go.
//
// A [Trace] has hooks that a process runs at each [TracePoint] of a call; the tables of points in trace.go, read from
// top to bottom, are the life of a call. Hooks run in the goroutine of the call, as those of net/http/httptrace do:
// they change nothing, and the time they take is added to the call. Telemetry makes traces of them, and tests stop
// processes there. An [IncomingRequest] is a request with its sender, as it came from the bus.
package call
