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
// state after it, so the last event is the state: [Fold] needs nothing else. Whoever wants to
// write asks one of three functions what to do, and all processes ask the same ones:
//
//   - [Admit]: a request arrived (dispatcher);
//   - [Take]: a work message arrived (executor);
//   - [Decide]: an attempt should end (executor, deadline timer, guardian, canceller).
//
// Each answers with a step and, when something is to be written, the event. A writer that loses
// the compare-and-set folds what it finds and asks again. test/model checks these functions
// exhaustively. Start reading at state.go.
package call
