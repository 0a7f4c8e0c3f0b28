// Package writer writes the streams AUDIT, SURPLUS and DENIED of the audit log.
//
// A [Projector] records the events of one partition of the call log, each once and in order. Several dispatchers may
// project the same partition, and any of them may die. A [Journal] records everything that has no event: refusals,
// callers that join a call, and late results. [Shares] counts what each tenant keeps in AUDIT. A
// [Watermark] waits until the audit log holds an event. Start reading at projector.go, journal.go and watermark.go.
package writer
