package client

import (
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

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
