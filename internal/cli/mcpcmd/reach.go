package mcpcmd

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// reachPause is the time between two attempts to connect.
const reachPause = 500 * time.Millisecond

// agent is the connection of the command mcp.
type agent struct {
	open Connect
	away error // of the first try, if no server was reached; nil otherwise

	mu     sync.Mutex
	conn   *toolbus.Conn // nil before the first connection
	client *toolbus.Client
}

// connect tries once. It returns a nil client without an error if no server was reached.
func (a *agent) connect(ctx context.Context) (*toolbus.Client, error) {
	conn, client, err := a.open(ctx, auth.Agent)
	if err != nil && ctx.Err() == nil && bus.IsUnreachable(err) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.away = cmp.Or(a.away, err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conn, a.client = conn, client
	return client, nil
}

// wait tries until a server is reached, or ctx ends.
func (a *agent) wait(ctx context.Context) (*toolbus.Client, error) {
	for {
		client, err := a.connect(ctx)
		if client != nil || err != nil {
			return client, err
		}
		select {
		case <-time.After(reachPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (a *agent) connected() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.conn != nil && a.conn.NATS().IsConnected()
}

func (a *agent) close() {
	if a.conn != nil {
		_ = a.client.Close() // conn.Close follows
		a.conn.Close()
	}
}
