package mcp

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed-018f16cc/toolbus/tool/mcp/upstream"
)

// recheck is how long the definitions that a server has listed are believed to be those that it has.
const recheck = time.Minute

// pingPatience is how long a server has to show that it is there.
const pingPatience = 5 * time.Second

// link is one connection to a server.
type link struct {
	conn   *upstream.Conn
	calls  int // under way, as the pool counts
	opened time.Time
	served atomic.Bool // it has answered a call
	asked  atomic.Bool // a ping is under way

	checking chan struct{} // holds one token while somebody looks at the next two
	checked  time.Time
	digests  map[string]string // of the definitions, by tool
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
func (l *link) verify(ctx context.Context, e Endpoint) error {
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
	switch now, there := l.digests[e.Tool]; {
	case !there:
		return &changedError{e.Server, e.Tool, "is not there any more"}
	case now != e.Definition:
		return &changedError{e.Server, e.Tool, "has another definition than the one that was approved"}
	}
	return nil
}

// list notes what the server defines. A definition that cannot be read equals none that was approved.
func (l *link) list(ctx context.Context) error {
	l.checked = time.Time{}
	tools, err := l.conn.List(ctx)
	if err != nil {
		return fmt.Errorf("list its tools: %w", err)
	}
	digests := make(map[string]string, len(tools))
	for _, t := range tools {
		definition, err := Definition(t)
		if _, twice := digests[t.Name]; twice || err != nil {
			digests[t.Name] = ""
			continue
		}
		digests[t.Name] = Digest(definition)
	}
	l.checked, l.digests = time.Now(), digests
	return nil
}

// probe ends a server that does not answer any more, after it has left a call without an answer.
func (l *link) probe(ctx context.Context) {
	if l.asked.Swap(true) {
		return
	}
	go func() {
		defer l.asked.Store(false)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingPatience)
		defer cancel()
		if err := l.conn.Ping(ctx); errors.Is(err, context.DeadlineExceeded) {
			l.conn.End("it did not answer any more")
		}
	}()
}
