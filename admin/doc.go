// Package admin has the calls of operators and auditors. A [Client] issues and revokes tokens, reads the audit log and
// retries dead letters. [Diagnose], [DiagnoseWithSecrets] and [Configuration] check a deployment from outside, as
// `toolbus doctor` does: they change nothing, each [Check] that does not pass says what to do, and a check that could
// not be made is one that does not pass.
//
// Start reading at client.go. doctor.go has the checks; inventory.go compares the tools that dispatchers have loaded.
package admin
