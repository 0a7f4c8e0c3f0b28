package admin

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Lock sets a safety lock on all calls, those of a tool, or those whose request names a lane. Within 1 s, no dispatcher
// admits a call that it covers, and no executor starts one. A lock of the same target is replaced.
func (c *Client) Lock(ctx context.Context, r envelope.LockRequest) (envelope.LocksResponse, error) {
	return ask(ctx, c, operation.Lock, r)
}

// Unlock clears the safety lock of a target. Within 1 s, dispatchers admit calls that no other lock covers.
func (c *Client) Unlock(ctx context.Context, r envelope.LockRequest) (envelope.LocksResponse, error) {
	return ask(ctx, c, operation.Unlock, r)
}

// Locks returns the safety locks in force, oldest first.
func (c *Client) Locks(ctx context.Context) ([]envelope.Lock, error) {
	a, err := ask(ctx, c, operation.Locks, struct{}{})
	return a.Locks, err
}

// lockTakesEffect is the time after which no executor starts a call that a lock covers.
const lockTakesEffect = time.Second

// KillLocked ends the running calls that the safety lock of a target covers, and calls each for each one that it has
// ended. It takes at least 1 s: until then executors may start further ones. After an error it may have ended some, and
// can be called again.
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
		a, err := ask(ctx, c, operation.LockKill, q)
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
