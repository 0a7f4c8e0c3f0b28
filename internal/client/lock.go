package client

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// lockTakesEffect is the time after which no executor starts a call that a lock covers.
const lockTakesEffect = time.Second

// Lock sets a safety lock: within a second nothing that it covers is admitted or started. It is for operators, as are
// the functions below.
func (c *Client) Lock(ctx context.Context, q envelope.LockRequest) (envelope.LocksResponse, error) {
	return answer[envelope.LocksResponse](ctx, c, subjects.OpLock, q)
}

// Unlock clears the safety lock of a target.
func (c *Client) Unlock(ctx context.Context, q envelope.LockRequest) (envelope.LocksResponse, error) {
	return answer[envelope.LocksResponse](ctx, c, subjects.OpUnlock, q)
}

// Locks returns the safety locks in force, oldest first.
func (c *Client) Locks(ctx context.Context) ([]envelope.Lock, error) {
	a, err := answer[envelope.LocksResponse](ctx, c, subjects.OpLocks, struct{}{})
	return a.Locks, err
}

// KillLocked ends the running calls that the lock of a target covers. It calls each for each one that it has ended. It
// looks again when the lock has taken effect everywhere: until then executors may start further ones.
func (c *Client) KillLocked(ctx context.Context, t envelope.LockTarget, each func(envelope.KilledCall)) error {
	for since := time.Now(); ; {
		began := time.Now()
		if err := c.killPages(ctx, t, each); err != nil {
			return err
		}
		if began.Sub(since) >= lockTakesEffect {
			return nil
		}
		if !timer.Sleep(ctx, lockTakesEffect-time.Since(since)) {
			return ctx.Err()
		}
	}
}

// killPages ends the calls of one look at all open calls.
func (c *Client) killPages(ctx context.Context, t envelope.LockTarget, each func(envelope.KilledCall)) error {
	q := envelope.LockKillRequest{LockTarget: t}
	for {
		a, err := answer[envelope.LockKillResponse](ctx, c, subjects.OpLockKill, q)
		if err != nil {
			return err
		}
		for _, k := range a.Killed {
			each(k)
		}
		if !a.More {
			return nil
		}
		q.After = a.Next
	}
}
