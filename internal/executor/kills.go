package executor

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/flow"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Limits of the cost of kills.
const (
	maxConfirms  = 4                      // concurrent reads of the log
	confirmTime  = 300 * time.Millisecond // timeout of one read
	confirmPause = 50 * time.Millisecond  // pause between two reads for the same attempt
)

// kills holds the jobs for which a kill was received, until the log confirms or refutes it. It is safe for concurrent
// use.
type kills struct {
	*Options
	jobs   *jobs
	forged flow.Dropped // kills that the log did not confirm

	mu     sync.Mutex
	doubts map[*job]bool
	news   chan struct{} // signals that doubts is not empty
}

func newKills(o *Options, all *jobs) kills {
	return kills{Options: o, jobs: all, doubts: map[*job]bool{}, news: make(chan struct{}, 1)}
}

// Kill handles a message that an attempt was cancelled, and reports whether its tool is running here. The message may
// be forged: [Executor.Confirm] reads the log, and ends the run only if the attempt is decided there. If the attempt
// has not arrived yet, the kill is kept until due, the deadline of the attempt, and Handle reads the log before it runs
// the attempt.
func (e *Executor) Kill(id string, attempt int, due time.Time) (running bool) {
	j := e.jobs.kill(call.AttemptKey{ID: id, N: attempt}, due, e.Now())
	if j == nil {
		return false
	}
	e.kills.add(j)
	_, running = j.control.started()
	return running
}

// Confirm reads the logs of attempts for which a kill was received, and ends the runs of those that are decided, until
// ctx ends. It makes at most maxConfirms reads at once, and one read per confirmPause for each attempt. Kills that the
// log does not confirm are counted and ignored.
func (e *Executor) Confirm(ctx context.Context) { e.kills.run(ctx) }

// add makes run read the log of the attempt.
func (k *kills) add(j *job) {
	k.mu.Lock()
	k.doubts[j] = true
	k.mu.Unlock()
	timer.Notify(k.news)
}

func (k *kills) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.news:
		}
		k.mu.Lock()
		doubts := k.doubts
		k.doubts = map[*job]bool{}
		k.mu.Unlock()
		var reads errgroup.Group
		reads.SetLimit(maxConfirms)
		for j := range doubts {
			reads.Go(func() error { k.confirm(ctx, j); return nil })
		}
		_ = reads.Wait() // no read returns an error
		timer.Sleep(ctx, confirmPause)
	}
}

// confirm ends the run of an attempt if it is decided in the log. If the log cannot be read, run reads it again.
func (k *kills) confirm(ctx context.Context, j *job) {
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	key := j.key()
	last, err := k.CallLog.Read(ctx, j.tool(), key.ID)
	a, ok := last.State.Attempt(key.N)
	switch {
	case err != nil && !format.IsUnsupported(err):
		if k.jobs.find(key) == j {
			k.add(j)
		}
	case err == nil && ok && a.Admitted == j.delivery.Admitted && !a.Open():
		j.control.kill()
	default:
		k.forged.Note(k.Logger, "the log does not confirm that a call is cancelled", subjects.Kill(key.ID))
	}
}
