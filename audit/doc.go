// Package audit is the audit record: what an event of the call log, or a refusal at the gate,
// means to an auditor. It is pure; package record appends records to the stream AUDIT.
//
// Records hold hashes, ids, versions and decisions, never inputs or outputs. [Project] derives
// the records of the call log; whoever projects the same log gets the same records, so that
// several may do it at once. Start reading at record.go.
package audit
