package executor

import (
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// HeartbeatStored tells the executor that a heartbeat of its own, sent at a time (in bus time), is stored. Call it for
// every one, and for the first before any message is handled. Dispatchers call an attempt untaken where nobody has
// beaten since it was stored. So what was stored before the heartbeats began, or while they were interrupted, is
// claimed before it runs: whichever of the two events the log takes first, the other side learns of it.
func (e *Executor) HeartbeatStored(sent time.Time) {
	now := e.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.heartbeatSent.IsZero() || now.Sub(e.heartbeatSent) > e.Lease {
		e.since = now
	}
	e.heartbeatSent = sent
}

// silent reports whether dispatchers may hold that this executor is gone. Callers hold e.mu.
func (e *Executor) silent(now time.Time) bool {
	return !e.heartbeatSent.IsZero() && now.Sub(e.heartbeatSent) > e.Lease
}

// Locate reports since when, in bus time, the tool of an attempt has run here; ok is false where it does not.
func (e *Executor) Locate(id string, attempt int) (since time.Time, ok bool) {
	e.mu.Lock()
	j := e.running[call.AttemptKey{ID: id, N: attempt}]
	e.mu.Unlock()
	if j == nil {
		return time.Time{}, false
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.since, j.running
}
