// Package reader reads the streams AUDIT, SURPLUS, DENIED and DEAD: with consumers, by direct gets, or through
// dispatchers.
//
// A [Source] reads the streams in one of these three ways. Operators and auditors without access to JetStream read
// through dispatchers. [Open] returns the Source that the permissions of a connection allow. [Replay] yields the
// records that match a [Filter], ordered by time. Start reading at archive.go, then replay.go.
package reader
