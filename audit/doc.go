// Package audit is the audit record: what an event of the call log, or a refusal at the gate,
// means to an auditor. It is pure; package bus appends records to the AUDIT stream.
//
// Records hold hashes, ids, versions and decisions, never inputs or outputs (003 §Audit emission
// rules). [Project] derives the records of the call log; whoever projects the same log gets the
// same records, so that several may do it at once.
package audit
