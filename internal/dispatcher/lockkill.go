package dispatcher

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/call/outcome"
	"github.com/seed-018f16cc/toolbus/internal/dispatcher/deadline"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// maxKillPage is the largest number of open attempts that one request looks at.
const maxKillPage = 64

// KillLocked cancels running calls that the safety lock of a target covers, as their callers could. It looks at one
// page of the open calls, and leaves those in the queue to executors, which start none of them. It is for operators.
func (d *Dispatcher) KillLocked(
	ctx context.Context, q envelope.LockKillRequest,
) (a envelope.LockKillResponse, _ *envelope.Error) {
	l, refusal := d.lockOn(q.LockTarget)
	if refusal != nil {
		return a, refusal
	}
	page, next, more := d.Deadlines.OpenAfter(q.After, maxKillPage, subjects.Owner{})
	page = slices.DeleteFunc(page, func(o deadline.Place) bool { return l.Tool != "" && l.Tool != o.Tool })
	killed, err := eachOpen(ctx, d, page, func(s call.State, a call.Attempt) (*envelope.KilledCall, error) {
		return d.killLocked(ctx, s, a, l)
	})
	if err != nil { // what was killed is decided, and the request can be repeated
		return envelope.LockKillResponse{}, unsettled(err)
	}
	return envelope.LockKillResponse{Killed: killed, Next: next, More: more}, nil
}

// lockOn returns the lock of a target that is in force.
func (d *Dispatcher) lockOn(t envelope.LockTarget) (envelope.Lock, *envelope.Error) {
	locks, _, err := d.Locks.Known()
	if err != nil {
		return envelope.Lock{}, envelope.NewError(envelope.CodeUnavailable, err.Error()).WithRetryAfter(time.Second)
	}
	i := slices.IndexFunc(locks, func(l envelope.Lock) bool { return l.LockTarget == t })
	if i < 0 {
		return envelope.Lock{}, envelope.NewError(envelope.CodeNotFound, "no such lock is in force").
			WithFix("set it first: `toolbus lock` with --kill does both")
	}
	return locks[i], nil
}

// killLocked cancels an attempt if the lock covers it and it is running. It returns nil for any other attempt.
func (d *Dispatcher) killLocked(
	ctx context.Context, s call.State, a call.Attempt, l envelope.Lock,
) (*envelope.KilledCall, error) {
	if !l.Covers(s.Tool, a.Owner.Lane) || !d.runs(ctx, s, a) {
		return nil, nil
	}
	o, _, err := d.cancel(ctx, s, a, outcome.Draft{Error: lock.Refusal(&l)})
	switch {
	case errors.Is(err, outcome.ErrAttemptGone), err == nil && !o.Won:
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &envelope.KilledCall{Ref: s.Ref(), Tool: s.Tool, Effect: o.Attempt.Decision.Effect}, nil
}

// runs reports whether an executor may run an open attempt: one has claimed it, or one answers that it runs it.
func (d *Dispatcher) runs(ctx context.Context, s call.State, a call.Attempt) bool {
	if a.Touched() {
		return true
	}
	_, _, runs := d.Control.Locate(ctx, s.Pool, s.ID, a.N)
	return runs
}
