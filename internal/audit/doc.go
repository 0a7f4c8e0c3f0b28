// Package audit has the records of the audit log: of each event of the call log, of refusals, and of operations on
// credentials. It is pure; package writer appends records to the streams AUDIT and DENIED, in segments.
//
// Records hold hashes, ids, versions and decisions, never inputs or outputs. [Project] derives
// the records of the call log; whoever projects the same log gets the same records, so that
// several may do it at once. Start reading at record.go.
package audit
