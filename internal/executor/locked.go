package executor

import (
	"context"
	"errors"
	"slices"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
)

// errUnlocked means that a lock was cleared after the message was received. The message was not counted among the runs
// of the tool, so it must be received again.
var errUnlocked = errors.New("the lock that stopped the call has been cleared")

// stopped reports whether a lock that is known here stops the call.
func (j *job) stopped() bool {
	lane := j.current().Owner.Lane
	locks, _, err := j.executor.Locks.Known()
	return err == nil && slices.ContainsFunc(locks, func(l envelope.Lock) bool { return l.Covers(j.state.Tool, lane) })
}

// checkLock sets j.locked if a lock stops the call.
func (j *job) checkLock() (err error) {
	if j.locked, err = j.findLock(j.ctx); err == nil && j.locked == nil && !j.counted {
		return errUnlocked
	}
	return err
}

// findLock returns the safety lock that stops the call, or nil. The error is [lock.ErrStale], or that of ctx.
func (j *job) findLock(ctx context.Context) (*envelope.Lock, error) {
	return j.executor.Locks.Find(ctx, j.state.Tool, j.current().Owner.Lane)
}

// lockedVerdict ends an attempt that a lock stops before the given step. On a first delivery no executor can have
// started it. Otherwise its effect is what the log proves. If the executor that claimed it is gone, the lookup of the
// tool is not asked, either.
func lockedVerdict(j *job, step call.NextStep) verdict {
	fault := lock.Refusal(j.locked)
	v := verdict{
		end:   call.Completion{Cause: call.Unrunnable, Error: fault.Code, Effect: envelope.EffectNone},
		draft: outcome.Draft{Error: fault},
	}
	switch {
	case step == call.AskTool:
		v.end = call.Completion{Cause: call.ClaimLost}
	case j.delivery.Deliveries > 1:
		v.end.Effect = envelope.EffectUnknown
	}
	return v
}

// checkLock returns nil if no lock stops the call now: one may have been set while the run was prepared. It waits until
// this executor knows which locks are in force, or ctx ends.
func (r *run) checkLock(ctx context.Context) error {
	for {
		l, err := r.job.findLock(ctx)
		switch {
		case l != nil:
			return faultError{lock.Refusal(l)}
		case !errors.Is(err, lock.ErrStale):
			return err
		}
	}
}
