package kv

import (
	"slices"
	"sync"
	"time"
)

// serverUptime is a clock that advances, with the local monotonic clock, only while the server answers. It stands still
// while the server or the connection is down, or this process is stopped. It is safe for concurrent use.
type serverUptime struct {
	mu    sync.Mutex
	total time.Duration // until last
	last  time.Time     // last answer of the server; zero while it is away
}

// unheard is the longest time after the last answer for which the server still counts as answering.
const unheard = 2 * lookBehind

// at returns the time of the clock at a local time.
func (s *serverUptime) at(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.until(now)
}

// until is at, for callers that hold s.mu.
func (s *serverUptime) until(now time.Time) time.Duration {
	if s.last.IsZero() {
		return s.total
	}
	return s.total + max(0, min(now.Sub(s.last), unheard))
}

// heard records that the server has just answered or sent a message.
func (s *serverUptime) heard(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total, s.last = s.until(now), now
}

// away records that the server does not answer. The time since its last answer does not count, because it is not known
// when the server stopped.
func (s *serverUptime) away() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Time{}
}

// Lag measures for how long a log has been known to hold events that are not done. The zero value is ready to use. It
// is not safe for concurrent use.
type Lag struct{ marks []mark }

// mark records that since a time of a [serverUptime] clock the log is known to reach a sequence.
type mark struct {
	end   uint64 // sequence
	since time.Duration
}

// A Lag keeps at most maxMarks marks, at least markEvery apart. A sequence that becomes known between two marks is
// added to the earlier one, so its event counts as known a little too early.
const (
	markEvery = 100 * time.Millisecond
	maxMarks  = 1000
)

// Known records that at the given time the log reached at least the sequence end.
func (b *Lag) Known(end uint64, at time.Duration) {
	n := len(b.marks)
	switch {
	case n == 0:
		b.marks = append(b.marks, mark{end, at})
	case end <= b.marks[n-1].end:
	case n < maxMarks && at-b.marks[n-1].since >= markEvery:
		b.marks = append(b.marks, mark{end, at})
	default:
		b.marks[n-1].end = end
	}
}

// Done records that every event up to the sequence end is done.
func (b *Lag) Done(end uint64) {
	n := slices.IndexFunc(b.marks, func(m mark) bool { return m.end > end })
	if n < 0 {
		n = len(b.marks)
	}
	b.marks = slices.Delete(b.marks, 0, n)
}

// Since returns the time at which the oldest event that is not done became known, or now if there is no such event.
func (b *Lag) Since(now time.Duration) time.Duration {
	if len(b.marks) == 0 {
		return now
	}
	return min(now, b.marks[0].since)
}
