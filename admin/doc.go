// Package admin is for operators and auditors. A [Client] issues and revokes tokens, reads the audit log and retries
// dead letters. [Diagnose], [DiagnoseWithSecrets] and [Configuration] check a deployment from outside, as `toolbus
// doctor` does. They change nothing. Each [Check] that fails or warns has a fix. A check that could not be made does
// not pass. An item of docs/tool_contract.md that was not checked has the status "open".
//
// Start reading at client.go. The checks are in doctor.go; inventory.go compares the tools that dispatchers have
// loaded, and checklist.go checks the contract for tools.
package admin
