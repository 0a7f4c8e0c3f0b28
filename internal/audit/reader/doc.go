// Package reader reads AUDIT and DENIED from streams, by direct gets, or through dispatchers.
//
// A [Source] reads the streams in one of these three ways. Dispatchers read them for operators and auditors. [Open]
// returns the source that the permissions of a connection allow. [Replay] yields the records that match a [Filter],
// ordered by time. Start reading at archive.go, then replay.go.
package reader
