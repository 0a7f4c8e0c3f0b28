package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// Back-off of a server that does not last: it is started again at once, then after backoff, after twice that, and so
// on.
const (
	backoff    = 250 * time.Millisecond
	maxBackoff = 30 * time.Second
	lasting    = 10 * time.Second // how long a server has to live to be well, if it answered nothing
)

// pool is one server: the connections to it, and when there may be a new one.
type pool struct {
	name    string
	server  client.Server
	resolve func() (client.Server, error) // with all that it refers to, as it is now
	dial    client.Options
	log     *slog.Logger

	mu      sync.Mutex
	conns   []*serverConn
	opening *opening // nil while nobody connects
	streak  int      // connections in a row that were no good
	again   time.Time
	failed  error // of the last attempt to connect
	// withheld are the tools, by id, of which the log says that they wait for approval.
	withheld map[string]bool
}

// opening is an attempt to connect.
type opening struct {
	stop context.CancelFunc
	done chan struct{}
}

// downError means that a server is not there now, so that nothing was sent to it.
type downError struct {
	server string
	err    error
	again  time.Duration // until it is started again
}

func (e *downError) Error() string {
	return fmt.Sprintf("server %s cannot be used: %v; it is started again in %v", e.server, e.err,
		e.again.Round(time.Millisecond))
}

func (e *downError) Unwrap() error { return e.err }

// take returns a connection for one call, which is to be given back. It starts the server if there is none.
func (p *pool) take(ctx context.Context) (*serverConn, error) {
	for {
		l, wait, err := p.pick(ctx)
		if l != nil || err != nil {
			return l, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// pick returns the connection with the fewest calls, or else what is to be waited for. There are never more processes
// than there may be, so one that is about to end holds up the next one.
func (p *pool) pick(ctx context.Context) (best *serverConn, wait <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = slices.DeleteFunc(p.conns, p.lost)
	for _, l := range p.conns {
		switch {
		case !l.conn.Usable():
			wait = l.conn.Broken()
		case l.asked != nil:
			wait = l.asked
		case best == nil || l.calls < best.calls:
			best = l
		}
	}
	left := time.Until(p.again)
	idle := best != nil && best.calls == 0
	if !idle && p.opening == nil && left <= 0 && len(p.conns) < max(1, p.server.Instances) {
		p.open(ctx)
	}
	switch {
	case best != nil:
		best.calls++
		return best, nil, nil
	case p.opening != nil:
		return nil, p.opening.done, nil
	case wait != nil:
		return nil, wait, nil
	}
	return nil, nil, &downError{p.name, p.failed, left}
}

// lost reports whether a connection is of no use any more, and notes what that says of the server.
func (p *pool) lost(l *serverConn) bool {
	select {
	case <-l.conn.Broken():
	default:
		return false
	}
	if l.served.Load() || time.Since(l.opened) > lasting {
		p.streak, p.again = 0, time.Time{}
	} else {
		p.postpone(errors.New("it ended before it had answered a call"))
	}
	return true
}

// postpone notes a failure.
func (p *pool) postpone(err error) {
	p.failed = err
	var pause time.Duration
	if p.streak > 0 {
		pause = min(backoff<<min(p.streak-1, 10), maxBackoff)
	}
	p.streak++
	p.again = time.Now().Add(pause)
	p.log.Warn("MCP server failed", "err", err, "retry_in", pause)
}

// open connects, for whoever waits for it: it goes on when the call that needed it first has ended.
func (p *pool) open(ctx context.Context) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	o := &opening{stop, make(chan struct{})}
	p.opening = o
	go func() {
		defer close(o.done)
		defer stop()
		conn, err := p.connect(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.opening = nil
		p.dial.Older = err == nil && conn.Older()
		if err != nil {
			p.postpone(err)
			return
		}
		name, version, protocol := conn.About()
		p.log.Info("MCP server started", "name", name, "version", version, "protocol", protocol)
		p.conns = append(p.conns, &serverConn{conn: conn, opened: time.Now(), checking: make(chan struct{}, 1)})
	}()
}

func (p *pool) connect(ctx context.Context) (*client.Conn, error) {
	server, err := p.resolve()
	if err != nil {
		return nil, err
	}
	return client.Dial(ctx, server, p.dial)
}

// probe ends a server that does not answer any more, after it has left a call without an answer. Further calls wait
// until it has shown that it is there.
func (p *pool) probe(ctx context.Context, l *serverConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.asked != nil {
		return
	}
	l.asked = make(chan struct{})
	go func() {
		for began := time.Now(); l.conn.Usable() && !l.answers(ctx); {
			if p.others(l) == 0 || time.Since(began) > busyPatience {
				l.conn.End("it did not answer any more")
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		close(l.asked)
		l.asked = nil
	}()
}

// others counts the calls that a connection has.
func (p *pool) others(l *serverConn) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.calls
}

// give gives a connection back.
func (p *pool) give(l *serverConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.calls--
}

// rest ends the server, and returns when nothing of it is left.
func (p *pool) rest() {
	p.mu.Lock()
	o := p.opening
	p.mu.Unlock()
	if o != nil {
		o.stop()
		<-o.done
	}
	p.mu.Lock()
	links := p.conns
	p.conns, p.streak, p.again = nil, 0, time.Time{}
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, l := range links {
		all.Go(l.conn.Close)
	}
	all.Wait()
}
