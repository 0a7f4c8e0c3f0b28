// Package evidence reads what the streams contain of a chaos run: the call log, the audit record and the dead letters.
// It keeps events of the call log that expire during the run. Start reading at gather.go.
package evidence
