package executor

import (
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// presence tracks since when this executor has received kills and stored heartbeats without interruption. It is safe
// for concurrent use.
type presence struct {
	lease         time.Duration
	mu            sync.Mutex
	since         time.Time // no kill was missed since this time; zero: any may have been
	heartbeatSent time.Time // bus time at which the newest stored heartbeat was sent; zero: none yet
}

// ControlReady states that no kill is missed from now on. Call it after the subscription to kills, and again after
// every reconnect. For attempts that were admitted before, Handle reads the log even on a first delivery.
func (e *Executor) ControlReady() {
	e.presence.begin(e.Now())
	e.jobs.forgetKills()
}

// HeartbeatStored records that the executor's own heartbeat, sent at the bus time sent, is stored. Call it for every
// heartbeat, and for the first one before any message is handled. Dispatchers decide that no executor started an
// attempt if no heartbeat of the pool was stored since the attempt. So the executor claims attempts that were stored
// before its heartbeats began, or while they were interrupted, before it runs them: either the claim or the decision
// fails its compare-and-set.
func (e *Executor) HeartbeatStored(sent time.Time) { e.presence.stored(sent, e.Now()) }

// Locate returns the bus time since which the tool of an attempt has run here. ok is false if it does not run here.
func (e *Executor) Locate(id string, attempt int) (since time.Time, ok bool) {
	j := e.jobs.find(call.AttemptKey{ID: id, N: attempt})
	if j == nil {
		return time.Time{}, false
	}
	return j.control.started()
}

func (p *presence) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = now
}

func (p *presence) stored(sent, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heartbeatSent.IsZero() || now.Sub(p.heartbeatSent).Abs() > p.lease { // negative: the server's clock was set back
		p.since = now
	}
	p.heartbeatSent = sent
}

// covers reports whether this executor has listened for kills without interruption since the bus time of an admission.
// Otherwise the attempt may have been cancelled, or delivered before: a server that crashed may have forgotten its last
// deliveries. If the newest heartbeat is older than the lease, dispatchers may treat this executor as gone, so covers
// returns false.
func (p *presence) covers(admitted, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	silent := !p.heartbeatSent.IsZero() && now.Sub(p.heartbeatSent) > p.lease
	return !silent && !admitted.Before(p.since.Add(killSlack))
}

// killSlack covers the difference between the server's clock, which sets the times of admissions, and bus time here.
const killSlack = 100 * time.Millisecond
