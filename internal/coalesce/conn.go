package coalesce

import (
	"net"
	"os"
	"runtime"
	"sync"
	"time"
)

const (
	limit  = 64 << 10              // bytes that wait to be written; a larger Write writes by itself
	soon   = 50 * time.Microsecond // between two writes that may be of a burst
	quiet  = 4                     // batches of one Write after which bursts have ended
	linger = time.Second           // that Close waits for accepted bytes to be written
)

// Conn is a connection whose Write may return before the bytes are written. Its methods are safe for concurrent use.
type Conn struct {
	net.Conn

	mu       sync.Mutex
	changed  sync.Cond // behind, writing or err
	behind   []byte    // accepted and not yet written, at most limit bytes; empty unless writing
	spare    []byte    // memory for behind
	count    int       // calls of Write that behind is of
	bursts   int       // batches of one Write until bursts have ended; 0 is that they have
	writing  bool      // one call of Write, or drain, writes to the connection
	last     time.Time // when writing became false
	err      error     // of the first write that failed, or net.ErrClosed; then Write accepts nothing
	deadline time.Time // of calls of Write, and of Close
	pending  int       // calls that the deadline bounds now
}

// New wraps conn. Only the returned Conn may then write to conn.
func New(conn net.Conn) *Conn {
	c := &Conn{Conn: conn}
	c.changed.L = &c.mu
	return c
}

// Write implements net.Conn. A lone p it writes itself. In a burst of calls it copies p, and another goroutine writes p
// together with later ones. While 64 KiB wait to be written, Write blocks.
// An error of a write, os.ErrDeadlineExceeded included, closes the connection, because bytes that Write had accepted
// are lost. All later calls return the error.
func (c *Conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !c.deadline.IsZero() && !now.Before(c.deadline) {
		return 0, os.ErrDeadlineExceeded
	}
	if c.full(p) {
		c.bound(+1)
		for c.full(p) {
			c.changed.Wait()
		}
		c.bound(-1)
	}
	switch {
	case c.err != nil:
		return 0, c.err
	case !c.writing && (len(p) > limit || c.bursts == 0 && now.Sub(c.last) >= soon):
		c.writing = true
		c.bound(+1)
		n, err := c.write(p)
		c.bound(-1)
		c.next()
		return n, err
	}
	c.behind = append(c.behind, p...)
	c.count++
	if !c.writing {
		c.writing = true
		c.next()
	}
	return len(p), nil
}

// full reports whether p must wait until other bytes are written.
func (c *Conn) full(p []byte) bool { return c.err == nil && c.writing && len(c.behind)+len(p) > limit }

// next passes writing on to drain, or ends it if no bytes wait.
func (c *Conn) next() {
	if len(c.behind) > 0 {
		go c.drain() // Close waits for it
		return
	}
	c.writing, c.last = false, time.Now()
	c.changed.Broadcast()
}

// drain writes what waits, and ends. Goroutines that run first may add to it.
func (c *Conn) drain() {
	runtime.Gosched()
	c.mu.Lock()
	defer c.mu.Unlock()
	batch := c.behind
	c.behind, c.spare = c.spare[:0], nil
	if c.bursts = max(c.bursts-1, 0); c.count > 1 {
		c.bursts = quiet
	}
	c.count = 0
	c.changed.Broadcast()
	_, _ = c.write(batch) // the next Write returns the error
	c.spare = batch
	c.next()
}

// write writes p to the connection. It unlocks c.mu meanwhile; writing keeps other writes away.
func (c *Conn) write(p []byte) (int, error) {
	c.mu.Unlock()
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	if err != nil {
		if c.err == nil {
			c.err = err
		}
		c.behind = nil
		_ = c.Conn.Close() // it is of no more use
	}
	return n, err
}

// bound counts the calls that the deadline bounds. Without any the connection has no deadline: it would end the write
// of bytes that Write has accepted before.
func (c *Conn) bound(more int) {
	c.pending += more
	if c.deadline.IsZero() {
		return
	}
	t := c.deadline
	if c.pending == 0 {
		t = time.Time{}
	}
	_ = c.Conn.SetWriteDeadline(t) // an error means that the write fails, too
}

// SetWriteDeadline implements net.Conn. The deadline bounds calls of Write, and not the write of bytes that Write has
// accepted: tls.Conn sets one in the past before it closes the connection.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err // Close needs its own deadline
	}
	if c.deadline = t; c.pending == 0 {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.Conn.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// Close implements net.Conn. It writes the bytes that Write has accepted, for at most 1 s.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err, c.deadline = net.ErrClosed, time.Now().Add(linger)
		c.bound(+1)
		c.changed.Broadcast()
	}
	for c.writing {
		c.changed.Wait()
	}
	return c.Conn.Close()
}
