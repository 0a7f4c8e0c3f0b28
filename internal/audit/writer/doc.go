// Package writer writes AUDIT and DENIED: the projector of the call log, and the journal of refusals.
//
// [Projector] records the events of the call log, each once and in order, also after a process dies; several may run.
// [Journal] records everything that has no event: refusals, callers that share a call, and late results. [Watermark]
// returns when the audit log holds an event. Start reading at projector.go, journal.go and watermark.go.
package writer
