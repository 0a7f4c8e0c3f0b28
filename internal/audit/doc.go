// Package audit defines the records of the audit log, and derives them from the call log. A record describes a request,
// an outcome, a refusal, or an operation on credentials. The package does no I/O: package writer appends records to the
// streams AUDIT, SURPLUS and DENIED, in segments, and package reader reads them.
//
// Records hold hashes, ids, versions and decisions, never inputs or outputs. [Project] derives the records of an event
// of the call log. It is deterministic, so several dispatchers can record the same log. Start reading at record.go;
// event.go has the events.
package audit
