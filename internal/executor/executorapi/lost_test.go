package executorapi_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/executor/executorapi"
	"github.com/seed-018f16cc/toolbus/internal/policy/lock"
)

// onLine is called for each line of a log.
type onLine func()

// Write implements io.Writer.
func (f onLine) Write(p []byte) (int, error) { f(); return len(p), nil }

// An executor logs that no dispatcher answers, but not while it has lost the server: its process logs that loss.
func TestLossIsLoggedByItself(t *testing.T) {
	t.Parallel()
	f := setup(t)
	board := lock.NewBoard()
	board.Learn(nil, time.Now().Add(-time.Minute))
	for name, ask := range map[string]func(context.Context, *executorapi.Client){
		"locks":     func(ctx context.Context, c *executorapi.Client) { c.AskLocks(ctx, board) },
		"consumers": func(ctx context.Context, c *executorapi.Client) { _, _ = c.Look(ctx) },
	} {
		logs := func(c *executorapi.Client, within time.Duration) (lines int) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			c.WaitFor(100 * time.Millisecond)
			c.Log = slog.New(slog.NewTextHandler(onLine(func() { lines++; cancel() }), nil))
			ask(ctx, c)
			return lines
		}
		if n := logs(f.client("default"), time.Minute); n != 1 {
			t.Errorf("%s: without a dispatcher it logs %d lines", name, n)
		}
		c := f.client("default")
		lost := c.Inbox.NC.StatusChanged(nats.RECONNECTING)
		f.Srv.Stop()
		<-lost
		if n := logs(c, 2*time.Second); n != 0 {
			t.Errorf("%s: without a server it logs %d lines", name, n)
		}
		f.Srv.Restart()
	}
}
