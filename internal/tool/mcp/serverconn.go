package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// recheck is how long the definitions that a server has listed are believed to be those that it has.
const recheck = time.Minute

// A server that has left a call without an answer has pingPatience to say anything, and busyPatience while it has other
// calls: some do one thing at a time.
const (
	pingPatience = 5 * time.Second
	busyPatience = 30 * time.Second
)

// serverConn is one connection to a server.
type serverConn struct {
	conn   *client.Conn
	opened time.Time
	served atomic.Bool // it has answered a call

	// Of the pool, which locks them.
	calls int           // under way
	asked chan struct{} // is closed when the server has shown that it is there, or is ended; nil while nobody asks

	checking chan struct{} // holds one token while somebody looks at the next two
	checked  time.Time     // zero: the definitions must be listed before the next call
	tried    time.Time     // to list them
	// digests holds the digest of each definition by tool name; nil before the first list of the server.
	digests atomic.Pointer[map[string]string]
}

// changedError means that a tool is not what was approved, and was not called.
type changedError struct {
	server, tool string
	how          string
}

func (e *changedError) Error() string {
	return fmt.Sprintf("the tool %s of server %s %s", e.tool, e.server, e.how)
}

// verify returns a *changedError unless the server defines the tool as it was approved.
func (l *serverConn) verify(ctx context.Context, e Endpoint) error {
	if e.Definition == "" {
		return nil
	}
	select {
	case l.checking <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-l.checking }()
	if l.conn.Changed() || time.Since(l.checked) > recheck {
		if err := l.list(ctx); err != nil {
			return err
		}
	}
	if changed := l.change(e); changed != nil {
		return changed
	}
	return nil
}

// change returns how the server defines a tool otherwise than it was approved, as it has listed its tools last; nil if
// it does not.
func (l *serverConn) change(e Endpoint) *changedError {
	switch now, there := (*l.digests.Load())[e.Tool]; {
	case !there:
		return &changedError{e.Server, e.Tool, "is not there any more"}
	case now != e.Definition:
		return &changedError{e.Server, e.Tool, "has another definition than the one that was approved"}
	}
	return nil
}

// list notes what the server defines.
func (l *serverConn) list(ctx context.Context) error {
	l.checked, l.tried = time.Time{}, time.Now()
	tools, err := l.conn.List(ctx)
	if err != nil {
		return fmt.Errorf("list its tools: %w", err)
	}
	digests := digestsOf(tools)
	l.digests.Store(&digests)
	l.checked = time.Now()
	return nil
}

// answers reports whether the server says anything within pingPatience.
func (l *serverConn) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingPatience)
	defer cancel()
	return !errors.Is(l.conn.Ping(ctx), context.DeadlineExceeded)
}
