package executor

import (
	"context"
	"maps"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Bounds of what kills cost. Anybody who makes the server publish in the account of executors can forge one.
const (
	maxKilled    = 10_000                 // kills that are remembered, of attempts that have not arrived
	maxConfirms  = 4                      // reads of the log at once
	confirmTime  = 300 * time.Millisecond // that one read may take
	confirmPause = 50 * time.Millisecond  // between two reads of the log of the same attempt
)

// ControlReady says that no kill is missed from now on. Call it once kills are subscribed to, and
// again after every interruption: first deliveries admitted before are looked up in the log.
func (e *Executor) ControlReady() {
	now := e.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.since = now
	clear(e.killed)
}

// Kill handles a message that says that an attempt is cancelled, and reports whether its tool is running here. The
// message proves nothing: [Executor.Confirm] reads the log, and ends the run only if the attempt is decided there. A
// kill of an attempt that has not arrived is remembered until its deadline due: Handle reads the log before it runs it.
func (e *Executor) Kill(id string, attempt int, due time.Time) (running bool) {
	now := e.Now()
	k := call.AttemptKey{ID: id, N: attempt}
	e.mu.Lock()
	j := e.running[k]
	if j == nil {
		e.remember(k, due, now)
	}
	e.mu.Unlock()
	if j == nil {
		return false
	}
	e.doubt(j)
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.running
}

// remember keeps a kill until due. It looks for those that are over only when there are many: a flood
// of kills must not cost a pass over all of them each. Callers hold e.mu.
func (e *Executor) remember(k call.AttemptKey, due, now time.Time) {
	if len(e.killed) >= maxKilled {
		maps.DeleteFunc(e.killed, func(_ call.AttemptKey, due time.Time) bool { return !due.After(now) })
		if len(e.killed) > maxKilled/2 {
			clear(e.killed)
			e.forgot = now
		}
	}
	e.killed[k] = due
}

// heard reports whether a kill of the attempt was heard, or may have been forgotten. A kill whose time is over was for
// another attempt, of a log that has expired since.
func (e *Executor) heard(j *job) bool {
	now := e.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.killed[j.key()].After(now) || j.enqueued.Before(e.forgot.Add(killSlack))
}

// mayHaveStarted reports whether the attempt, because it was admitted before this executor listened without
// interruption, may have been cancelled or delivered before: a server that has crashed meanwhile may have forgotten
// its last deliveries.
func (e *Executor) mayHaveStarted(j *job) bool {
	now := e.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.silent(now) || j.enqueued.Before(e.since.Add(killSlack))
}

// killSlack covers the difference between the server's clock, which dates admissions, and ours.
const killSlack = 100 * time.Millisecond

// doubt has Confirm look at the attempt.
func (e *Executor) doubt(j *job) {
	e.mu.Lock()
	e.doubts[j] = true
	e.mu.Unlock()
	select {
	case e.doubted <- struct{}{}:
	default: // Confirm is told already
	}
}

// Confirm reads the logs of the attempts that are said to be cancelled, and ends the runs of those that are decided,
// until ctx ends. Of each attempt there is at most one read at a time, and one for each confirmPause; of all at most
// maxConfirms at a time. Kills that the log does not confirm are counted, and change nothing.
func (e *Executor) Confirm(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.doubted:
		}
		e.mu.Lock()
		jobs := e.doubts
		e.doubts = map[*job]bool{}
		e.mu.Unlock()
		var reads errgroup.Group
		reads.SetLimit(maxConfirms)
		for j := range jobs {
			reads.Go(func() error { e.verify(ctx, j); return nil })
		}
		_ = reads.Wait() // no read returns an error
		timer.Sleep(ctx, confirmPause)
	}
}

// verify ends the run of an attempt if the log says that it is decided. A log that cannot be read now is read again.
func (e *Executor) verify(ctx context.Context, j *job) {
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	k := j.key()
	last, err := e.CallLog.Read(ctx, j.tool(), k.ID)
	a, ok := last.State.Attempt(k.N)
	switch {
	case err != nil && !format.IsUnsupported(err):
		if e.handles(j) {
			e.doubt(j)
		}
	case err == nil && ok && a.Admitted == j.delivery.Admitted && !a.Open():
		j.kill()
	default:
		e.forged.Note(e.Logger, "the log does not confirm that a call is cancelled", subjects.Kill(k.ID))
	}
}

// handles reports whether the message is still in progress here.
func (e *Executor) handles(j *job) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running[j.key()] == j
}
