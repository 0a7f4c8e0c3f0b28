// Package reader reads what package writer keeps: the audit record and the dead letters.
//
// [Archive] is where they are read: the streams themselves, copies of them, or dispatchers, which read them for
// operators and auditors; [Open] finds out which. [Replay] yields the records that fit a [Filter], in the order of
// time, and [DeadLetters] the dead letters. Start reading at archive.go, then replay.go.
package reader
