package bus

import (
	"net"
	"runtime"
	"sync"
	"time"
)

const (
	limit  = 64 << 10              // most bytes that wait to be written; a longer Write is written directly
	soon   = 50 * time.Microsecond // longest pause between two writes of a burst
	quiet  = 4                     // a burst ends after this number of batches that hold one Write each
	linger = time.Second           // longest time that Close takes to write accepted bytes
)

// CoalescedConn is a connection whose Write may return before the bytes are written. Its methods are safe for
// concurrent use.
type CoalescedConn struct {
	net.Conn
	timeout time.Duration // for one write to the connection; 0 means no timeout

	mu      sync.Mutex
	changed sync.Cond // signals a change of behind, writing or err
	behind  []byte    // accepted and not yet written, at most limit bytes; empty unless writing
	spare   []byte    // memory that behind uses next
	count   int       // number of calls of Write whose bytes are in behind
	bursts  int       // batches with one Write each until the burst ends; 0 outside a burst
	writing bool      // a call of Write, or drain, is writing to the connection
	last    time.Time // when writing became false
	err     error     // first error of a write, or net.ErrClosed; if it is set, Write accepts nothing
}

// NewCoalescedConn wraps conn. After that, only the returned connection may write to conn. A write to conn that takes
// longer than timeout fails with os.ErrDeadlineExceeded; 0 means no timeout.
func NewCoalescedConn(conn net.Conn, timeout time.Duration) *CoalescedConn {
	c := &CoalescedConn{Conn: conn, timeout: timeout}
	c.changed.L = &c.mu
	return c
}

// Write implements net.Conn. Outside a burst of calls it writes p before it returns. In a burst it copies p, and
// another goroutine writes p together with the bytes of later calls. While 64 KiB wait to be written, Write blocks. An
// error of a write closes the connection, because bytes that Write had accepted are lost. All later calls return the
// error.
func (c *CoalescedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.full(p) {
		c.changed.Wait()
	}
	switch {
	case c.err != nil:
		return 0, c.err
	case !c.writing && (len(p) > limit || c.bursts == 0 && time.Since(c.last) >= soon):
		c.writing = true
		n, err := c.write(p)
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
func (c *CoalescedConn) full(p []byte) bool {
	return c.err == nil && c.writing && len(c.behind)+len(p) > limit
}

// next starts drain if bytes wait to be written, and otherwise sets writing to false.
func (c *CoalescedConn) next() {
	if len(c.behind) > 0 {
		go c.drain() // Close waits for it
		return
	}
	c.writing, c.last = false, time.Now()
	c.changed.Broadcast()
}

// drain writes the waiting bytes as one batch. It yields first, so that runnable goroutines can add bytes to the batch.
func (c *CoalescedConn) drain() {
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

// write writes p to the connection. It unlocks c.mu during the write; c.writing prevents a second write.
func (c *CoalescedConn) write(p []byte) (int, error) {
	if c.err == nil && c.timeout > 0 { // Close has set its own deadline
		_ = c.Conn.SetWriteDeadline(time.Now().Add(c.timeout)) // after an error the write fails, too
	}
	c.mu.Unlock()
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	if err != nil {
		if c.err == nil {
			c.err = err
		}
		c.behind = nil
		_ = c.Conn.Close() // the write error is the one to return
	}
	return n, err
}

// SetWriteDeadline implements net.Conn. It has no effect: a deadline would end the write of bytes that Write has
// accepted. tls.Conn sets one in the past before it closes the connection.
func (c *CoalescedConn) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline implements net.Conn. It bounds reads only.
func (c *CoalescedConn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// Close implements net.Conn. It writes the bytes that Write has accepted, for at most 1 s.
func (c *CoalescedConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = net.ErrClosed
		_ = c.Conn.SetWriteDeadline(time.Now().Add(linger))
		c.changed.Broadcast()
	}
	for c.writing {
		c.changed.Wait()
	}
	return c.Conn.Close()
}
