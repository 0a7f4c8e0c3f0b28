package kv

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The clock of a server goes only while it serves, and not for long without having been heard.
func TestServing(t *testing.T) {
	var s serverUptime
	now := time.Now()
	want := func(d time.Duration) {
		t.Helper()
		if got := s.at(now); got != d {
			t.Errorf("served %s, want %s", got, d)
		}
	}
	pass := func(d time.Duration) { now = now.Add(d) }
	want(0)
	pass(time.Minute)
	s.heard(now)
	want(0)
	pass(time.Second)
	want(time.Second)
	s.heard(now)
	pass(500 * time.Millisecond)
	want(1500 * time.Millisecond)
	s.away() // since when is not known
	want(time.Second)
	pass(time.Hour)
	want(time.Second)
	s.heard(now)
	want(time.Second)
	pass(time.Hour) // this process was stopped
	want(time.Second + unheard)
	s.heard(now)
	want(time.Second + unheard)
}

// What is known first and not done counts, however much becomes known and is done behind it.
func TestBacklog(t *testing.T) {
	var b Lag
	want := func(now, since time.Duration) {
		t.Helper()
		if got := b.Since(now); got != since {
			t.Errorf("since %s, want %s", got, since)
		}
	}
	want(time.Second, time.Second)
	b.Known(10, time.Second)
	b.Known(10, 2*time.Second) // no more than before
	b.Known(11, time.Second+markEvery/2)
	b.Known(20, 3*time.Second)
	b.Known(5, 4*time.Second)
	want(time.Minute, time.Second)
	b.Done(10) // not the one that became known soon after
	want(time.Minute, time.Second)
	b.Done(11)
	want(time.Minute, 3*time.Second)
	want(2*time.Second, 2*time.Second) // the clock was set back when the server had been away
	b.Done(20)
	want(time.Minute, time.Minute)
}

// A Backlog that grows for long takes no more room.
func TestBacklogIsBounded(t *testing.T) {
	var b Lag
	for i := range uint64(10 * maxMarks) {
		b.Known(i+1, time.Duration(i)*time.Second)
	}
	if len(b.marks) != maxMarks || b.Since(time.Hour) != 0 {
		t.Errorf("%d marks, since %s", len(b.marks), b.Since(time.Hour))
	}
	b.Done(10*maxMarks - 1)
	if b.Since(time.Hour*100) == time.Hour*100 {
		t.Error("the last one is not waited for")
	}
	if b.Done(10 * maxMarks); b.Since(time.Hour) != time.Hour {
		t.Error("more is waited for")
	}
}

// What two consumers bring is observed once, while one takes over from the other.
func TestObservedOnce(t *testing.T) {
	f := NewFollower(nil, 0)
	bring := func(consumer string, seq uint64) bool {
		_, isNew := f.begun(&jetstream.MsgMetadata{Consumer: consumer, Sequence: jetstream.SequencePair{Stream: seq}})
		if isNew {
			f.passed(seq)
		}
		return isNew
	}
	for _, row := range []struct {
		consumer string
		seq      uint64
		isNew    bool
	}{{"a", 1, true}, {"a", 2, true}, {"b", 2, false}, {"b", 3, true}, {"a", 3, false}, {"a", 5, true}, {"b", 5, false}} {
		if bring(row.consumer, row.seq) != row.isNew {
			t.Errorf("%d from %s: not %t", row.seq, row.consumer, row.isNew)
		}
	}
}
