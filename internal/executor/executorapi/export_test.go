package executorapi

import (
	"context"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
)

// WaitFor is how long the client waits for one answer.
func (c *Client) WaitFor(answer time.Duration) { c.answer = answer }

// AskLocks asks for the safety locks once, as KeepLocks does.
func (c *Client) AskLocks(ctx context.Context, board *lock.Board) {
	(&lockKeeper{client: c, board: board}).ask(ctx)
}
