// Package evidence reads what the bus has kept of a run of chaos: the call log, the record and the dead letters, also
// what has expired meanwhile. Start reading at gather.go.
package evidence
