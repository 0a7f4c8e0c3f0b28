package kv

import (
	"slices"
	"sync"
	"time"
)

// serverUptime is a clock that goes only while a server serves, by the local monotonic clock: what happened while the
// server or the connection was away, or this process was stopped, took no time on it. It is safe for concurrent use.
type serverUptime struct {
	mu    sync.Mutex
	total time.Duration // until last
	last  time.Time     // when the server was last heard; zero while it is away
}

// unheard is for how long a server is believed to serve that has not been heard since.
const unheard = 2 * lookBehind

// at returns the serving time at a local time.
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

// heard says that the server has just answered, or sent something by itself.
func (s *serverUptime) heard(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total, s.last = s.until(now), now
}

// away says that the server does not answer. How long it had not been there is not known: what it was believed to
// serve since it was last heard is not counted.
func (s *serverUptime) away() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Time{}
}

// Lag says for how long it has been known that there is more to do than is done. Both are positions of a
// log. The zero value is ready to use; callers keep it to one goroutine at a time.
type Lag struct{ marks []mark }

// mark is what was known at a time of a [serverUptime] clock.
type mark struct {
	end   uint64 // there is something up to here
	since time.Duration
}

// Marks are so far apart, and there are at most so many. What becomes known between two counts with the first.
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
