// Package record keeps what auditors and operators are told: the stream AUDIT and the dead letters.
//
// [Projector] puts the events of the call log on record, each once and in order, whatever dies meanwhile; several may
// run. [Append] adds what is no event: denials, replays, late results. [Replay] reads the record. [Bury] keeps a call
// that could not be run, [DeadLetters] lists them. Start reading at projector.go.
package record
