// Package writer writes the streams AUDIT and DENIED, which auditors read, and the dead letters, which operators read.
//
// [Projector] puts the events of the call log on record, each once and in order, whatever dies meanwhile; several may
// run. [Journal] adds what is no event: refusals, callers that share a call, late results. [Coverage] knows how far the
// record has come. [Bury] keeps a call that could not be run. Package archive reads it all. Start reading at
// projector.go.
package writer
