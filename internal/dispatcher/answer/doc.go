// Package answer decides what a dispatcher tells each caller, and when.
//
// A caller gets an acceptance, at once or after a delay, and the outcome when the attempt is decided. A joiner of a
// longer attempt gets an answer at its own deadline. A refusal is recorded before it is sent.
//
// A [Line] owns the newest known state of one log and the callers that wait for it. [Answers] owns the delayed
// acceptances and the deadlines of joiners. Each has its own lock. Start reading at answer.go, then waiters.go.
package answer
