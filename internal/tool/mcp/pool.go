package mcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// Back-off of a server that keeps failing: it is started again at once, then after backoff, after twice backoff, and so
// on up to maxBackoff.
const (
	backoff    = 250 * time.Millisecond
	maxBackoff = 30 * time.Second
	lasting    = 10 * time.Second // a server that lived longer counts as healthy even if it answered no call
)

// pool holds the connections to one server, and the time from which a new one may be opened.
type pool struct {
	name    string
	server  client.Server
	resolve func() (client.Server, error) // the server with its references replaced by their current values
	tokens  func(client.Server) (client.Tokens, error)
	dial    client.Options
	// announced counts announcements that resources or prompts of the server have changed.
	announced atomic.Int64
	listens   *listeners // of all servers
	log       *slog.Logger

	mu      sync.Mutex
	conns   []*serverConn
	opening *opening // nil while no goroutine connects
	streak  int      // failed connections in a row
	again   time.Time
	failed  error // of the last attempt to connect
	// withheld holds the ids of the tools that were logged as waiting for approval.
	withheld map[string]bool
}

// opening is an attempt to connect.
type opening struct {
	stop context.CancelFunc
	done chan struct{}
}

// downError means that a server cannot be used now, so nothing was sent to it.
type downError struct {
	server string
	err    error
	again  time.Duration // time until it may be started again
}

func (e *downError) Error() string {
	return fmt.Sprintf("server %s cannot be used: %v; it is started again in %v", e.server, e.err,
		e.again.Round(time.Millisecond))
}

func (e *downError) Unwrap() error { return e.err }

// take returns a connection for one call. The caller must give it back. take starts the server if there is no
// connection.
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

// pick returns the connection with the fewest calls, or else a channel to wait for. Connections that are about to end
// count towards server.Instances, so that there are never more processes than that.
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

// lost reports whether a connection has ended, and updates the back-off of the server.
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

// postpone counts a failure and sets the time from which the server may be started again.
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

// open connects in another goroutine. It continues when ctx, of the call that needed the connection first, has ended:
// other calls may wait for it.
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
		p.dial.Started = true
		name, version, protocol := conn.About()
		p.log.Info("MCP server started", "name", name, "version", version, "protocol", protocol)
		p.conns = append(p.conns, &serverConn{
			conn: conn, version: version, opened: time.Now(), checking: make(chan struct{}, 1),
		})
	}()
}

func (p *pool) connect(ctx context.Context) (*client.Conn, error) {
	server, err := p.resolve()
	if err != nil {
		return nil, err
	}
	dial := p.dial
	if dial.Tokens, err = p.tokens(server); err != nil {
		return nil, err
	}
	return client.Dial(ctx, server, dial)
}

// probe pings a server that left a call without an answer, and ends the server if it does not answer. Further calls
// wait for the result.
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

// others returns the number of calls on a connection.
func (p *pool) others(l *serverConn) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return l.calls
}

// give returns a connection to the pool after a call.
func (p *pool) give(l *serverConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.calls--
}

// rest ends the server, and returns when no process of it is left.
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
