package executor

import (
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// HeartbeatStored records that the executor's own heartbeat, sent at the bus time sent, is stored. Call it for every
// heartbeat, and for the first one before any message is handled. Dispatchers decide that no executor started an
// attempt if no heartbeat of the pool was stored since the attempt. So the executor claims attempts that were stored
// before its heartbeats began, or while they were interrupted, before it runs them: either the claim or the decision
// fails its compare-and-set.
func (e *Executor) HeartbeatStored(sent time.Time) {
	now := e.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.heartbeatSent.IsZero() || now.Sub(e.heartbeatSent) > e.Lease {
		e.since = now
	}
	e.heartbeatSent = sent
}

// silent reports whether the newest heartbeat is older than the lease, so that dispatchers may treat this executor as
// gone. Callers hold e.mu.
func (e *Executor) silent(now time.Time) bool {
	return !e.heartbeatSent.IsZero() && now.Sub(e.heartbeatSent) > e.Lease
}

// Locate returns the bus time since which the tool of an attempt has run here. ok is false if it does not run here.
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
