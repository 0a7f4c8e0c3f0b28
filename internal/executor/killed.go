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

// Limits of the cost of kills. A process that can publish in the account of executors can forge kills.
const (
	maxKilled    = 10_000                 // kills that are kept, of attempts that have not arrived
	maxConfirms  = 4                      // concurrent reads of the log
	confirmTime  = 300 * time.Millisecond // timeout of one read
	confirmPause = 50 * time.Millisecond  // pause between two reads for the same attempt
)

// ControlReady states that no kill is missed from now on. Call it after the subscription to kills, and again after
// every reconnect. For attempts that were admitted before, Handle reads the log even on a first delivery.
func (e *Executor) ControlReady() {
	now := e.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.since = now
	clear(e.killed)
}

// Kill handles a message that an attempt was cancelled, and reports whether its tool is running here. The message may
// be forged: [Executor.Confirm] reads the log, and ends the run only if the attempt is decided there. If the attempt
// has not arrived yet, the kill is kept until due, the deadline of the attempt, and Handle reads the log before it runs
// the attempt.
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

// remember keeps a kill until due. It removes expired kills only when it holds maxKilled, so that a flood of kills does
// not cause a pass over all of them for each one. Callers hold e.mu.
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

// heard reports whether a kill of the attempt was received, or may have been dropped. An expired kill was for an
// earlier attempt with the same key, whose log has expired.
func (e *Executor) heard(j *job) bool {
	now := e.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.killed[j.key()].After(now) || j.enqueued.Before(e.forgot.Add(killSlack))
}

// mayHaveStarted reports whether the attempt was admitted before this executor has listened for kills without
// interruption. Then it may have been cancelled, or delivered before: a server that crashed may have forgotten its last
// deliveries.
func (e *Executor) mayHaveStarted(j *job) bool {
	now := e.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.silent(now) || j.enqueued.Before(e.since.Add(killSlack))
}

// killSlack covers the difference between the server's clock, which sets the times of admissions, and bus time here.
const killSlack = 100 * time.Millisecond

// doubt makes Confirm read the log of the attempt.
func (e *Executor) doubt(j *job) {
	e.mu.Lock()
	e.doubts[j] = true
	e.mu.Unlock()
	select {
	case e.doubted <- struct{}{}:
	default: // Confirm is signalled already
	}
}

// Confirm reads the logs of attempts for which a kill was received, and ends the runs of those that are decided, until
// ctx ends. It makes at most maxConfirms reads at once, and one read per confirmPause for each attempt. Kills that the
// log does not confirm are counted and ignored.
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

// verify ends the run of an attempt if it is decided in the log. If the log cannot be read, Confirm reads it again.
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
