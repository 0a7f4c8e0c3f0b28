// Package writer writes AUDIT and DENIED: the projector of the call log, and the journal of refusals.
//
// [Projector] records the events of the call log, each once and in order, whatever dies meanwhile; several may
// run. [Journal] adds what is no event: refusals, callers that share a call, late results. [Watermark] knows up to
// which event the audit log is complete. Start reading at projector.go.
package writer
