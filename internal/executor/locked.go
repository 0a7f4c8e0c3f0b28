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
func (e *Executor) stopped(j *job) bool {
	a, _ := j.state.Attempt(j.attempt)
	locks, _, err := e.Locks.Known()
	return err == nil && slices.ContainsFunc(locks, func(l envelope.Lock) bool {
		return l.Covers(j.state.Tool, a.Owner.Lane)
	})
}

// checkLock sets j.locked if a lock stops the call.
func (e *Executor) checkLock(j *job) (err error) {
	if j.locked, err = e.lockOf(j.ctx, j); err == nil && j.locked == nil && !j.counted {
		return errUnlocked
	}
	return err
}

// lockOf returns the safety lock that stops the call, or nil. The error is [lock.ErrStale], or that of ctx.
func (e *Executor) lockOf(ctx context.Context, j *job) (*envelope.Lock, error) {
	a, _ := j.state.Attempt(j.attempt)
	return e.Locks.Find(ctx, j.state.Tool, a.Owner.Lane)
}

// endLocked ends an attempt that a lock stops before the given step. On a first delivery no executor can have started
// it. Otherwise its effect is what the log proves. If the executor that claimed it is gone, the lookup of the tool is
// not asked, either.
func (e *Executor) endLocked(j *job, step call.NextStep) error {
	fault := lock.Refusal(j.locked)
	end := call.Completion{Cause: call.Unrunnable, Error: fault.Code, Effect: envelope.EffectNone}
	switch {
	case step == call.AskTool:
		end = call.Completion{Cause: call.ClaimLost}
	case j.delivery.Deliveries > 1:
		end.Effect = envelope.EffectUnknown
	}
	return e.finish(j, end, outcome.Draft{Error: fault})
}

// lockedError is the error of a run that a lock stopped before its tool was started. It implements [envelope.Fault].
type lockedError struct{ by *envelope.Lock }

func (l lockedError) Error() string { return lock.Refusal(l.by).Message }

func (l lockedError) Fault() *envelope.Error { return lock.Refusal(l.by) }

// permitted returns nil if no lock stops the call now: one may have been set while the run was prepared. It waits until
// this executor knows which locks are in force, or ctx ends.
func (e *Executor) permitted(ctx context.Context, j *job) error {
	for {
		l, err := e.lockOf(ctx, j)
		switch {
		case l != nil:
			return lockedError{l}
		case !errors.Is(err, lock.ErrStale):
			return err
		}
	}
}
