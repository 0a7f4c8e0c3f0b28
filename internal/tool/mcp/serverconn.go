package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// recheck is the time after which the definitions of a server are listed again.
const recheck = time.Minute

// After a call without an answer, a server gets pingPatience to send any message. While it has other calls it gets
// busyPatience, because some servers handle one request at a time.
const (
	pingPatience = 5 * time.Second
	busyPatience = 30 * time.Second
)

// serverConn is one connection to a server.
type serverConn struct {
	conn    *client.Conn
	version string // of the server, as it reports it
	opened  time.Time
	served  atomic.Bool // true after it has answered a call
	older   atomic.Bool // true after tools were read again: a changed definition may be from before the approval

	// Guarded by the mutex of the pool.
	calls int           // running calls
	asked chan struct{} // closed when probe has ended; nil while probe does not run

	checking chan struct{} // locks checked and tried: full while one goroutine uses them
	checked  time.Time     // last successful list; zero: list before the next call
	tried    time.Time     // last attempt to list
	// digests holds the digest of each definition by tool name; nil before the first list of the server.
	digests atomic.Pointer[map[string]string]
}

// changedError means that a tool differs from its approved definition, and was not called.
type changedError struct {
	server, tool string
	how          string
}

func (e *changedError) Error() string {
	return fmt.Sprintf("the tool %s of server %s %s", e.tool, e.server, e.how)
}

// verify returns a *changedError if the server's definition of the tool is not the approved one. It lists the tools of
// the server first if it has to.
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

// change returns an error if the tool in the last list of the server is missing or differs from the approved
// definition.
func (l *serverConn) change(e Endpoint) *changedError {
	switch now, there := (*l.digests.Load())[e.Tool]; {
	case !there:
		return &changedError{e.Server, e.Tool, "is not there any more"}
	case now != e.Definition:
		return &changedError{e.Server, e.Tool, "has another definition than the one that was approved" +
			"; if that was approved just now, the server that runs is older and must be restarted"}
	}
	return nil
}

// list lists the tools of the server and stores their digests.
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

// answers reports whether the server sends any message, or an error, within pingPatience.
func (l *serverConn) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingPatience)
	defer cancel()
	return !errors.Is(l.conn.Ping(ctx), context.DeadlineExceeded)
}
