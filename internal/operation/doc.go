// Package operation is the table of the operations of the service of dispatchers: what callers may request besides
// calls.
//
// An [Operation] is one row: its name, the roles that may use it, who answers, and the types of its requests and
// answers. Subjects, server permissions, authorization, endpoints and clients are derived from the rows. An operation
// without roles is open to nobody. The table is constant and imports nothing of NATS. Start reading at table.go.
package operation
