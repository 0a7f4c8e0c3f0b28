package admin

import (
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// Lock sets a safety lock on all calls, those of a tool, or those whose request names a lane. Within 1 s, no dispatcher
// admits a call that it covers, and no executor starts one. A lock of the same target is replaced.
func (c *Client) Lock(ctx context.Context, r envelope.LockRequest) (envelope.LocksResponse, error) {
	a, err := c.own.Lock(ctx, r)
	return a, refused(err)
}

// Unlock clears the safety lock of a target. Within 1 s, dispatchers admit calls that no other lock covers.
func (c *Client) Unlock(ctx context.Context, r envelope.LockRequest) (envelope.LocksResponse, error) {
	a, err := c.own.Unlock(ctx, r)
	return a, refused(err)
}

// Locks returns the safety locks in force, oldest first.
func (c *Client) Locks(ctx context.Context) ([]envelope.Lock, error) {
	all, err := c.own.Locks(ctx)
	return all, refused(err)
}

// KillLocked ends the running calls that the safety lock of a target covers, and calls each for each one that it has
// ended. It takes at least 1 s: until then executors may start further ones. After an error it may have ended some, and
// can be called again.
func (c *Client) KillLocked(ctx context.Context, t envelope.LockTarget, each func(envelope.KilledCall)) error {
	return refused(c.own.KillLocked(ctx, t, each))
}
