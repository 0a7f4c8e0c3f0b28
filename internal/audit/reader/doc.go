// Package reader reads AUDIT and DENIED from streams, by direct gets, or through dispatchers.
//
// [Source] is where they are read: the streams themselves, copies of them, or dispatchers, which read them for
// operators and auditors; [Open] finds out which. [Replay] yields the records that match a [Filter], in the order of
// time. Start reading at archive.go, then replay.go.
package reader
