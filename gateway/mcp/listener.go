package mcp

import (
	"container/list"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxRefusing is the largest number of connections that are answered with 503 at the same time. Others are closed at
	// once.
	maxRefusing = 64
	// refuseTime is the time in which such a client must read the answer.
	refuseTime = time.Second
)

// overloadedAnswer is the answer to a connection above the limit. It is sent before any request.
const overloadedAnswer = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n" +
	"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 46\r\n\r\n" +
	"too many connections at once: try again later\n"

// listener limits the open connections of the listener that it wraps, including those that never send a request. The
// limit is a [quota] for addresses, so one address holds at most half of it. Above the limit, a new connection replaces
// the oldest one without a request: connections that never send one keep nobody out.
type listener struct {
	net.Listener

	mu       sync.Mutex
	open     quota
	waiting  list.List // of *counted without a request, ordered by the time since when
	closed   bool
	refusing sync.WaitGroup
	turned   chan struct{} // one element for each connection that gets a 503 before it is closed
}

// Bound returns a listener that accepts connections of at, at most [Options.MaxConnections] at once. For a further
// connection it closes the oldest one for which [Server.Handler] serves no request. If all have one, it answers the
// further connection with 503 and closes it. Close of the listener waits for these answers for at most 1 s.
func (s *Server) Bound(at net.Listener) net.Listener {
	return &listener{Listener: at, open: quota{most: s.o.MaxConnections}, turned: make(chan struct{}, maxRefusing)}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if admitted := l.admit(c); admitted != nil {
			return admitted, nil
		}
	}
}

// admit counts a connection, or refuses it and returns nil.
func (l *listener) admit(c net.Conn) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	admitted := &counted{Conn: c, of: l, from: source(c.RemoteAddr())}
	if !l.open.take(admitted.from) && !l.replace(admitted.from) {
		l.refuse(c)
		return nil
	}
	admitted.waits = l.waiting.PushBack(admitted)
	return admitted
}

// replace closes the oldest connection without a request, and gives its unit to the address from. It leaves those of
// addresses that hold fewer connections than from. It returns false if it finds no such connection. Callers hold l.mu.
func (l *listener) replace(from string) bool {
	for e := l.waiting.Front(); e != nil; e = e.Next() {
		if oldest := e.Value.(*counted); l.open.held[oldest.from] >= l.open.held[from] {
			_ = oldest.Conn.Close() // nothing of it was promised to the client
			oldest.leave()
			l.open.add(from)
			return true
		}
	}
	return false
}

// Close implements net.Listener.
func (l *listener) Close() error {
	err := l.Listener.Close()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.refusing.Wait()
	return err
}

// refuse answers and closes a connection. Callers hold l.mu. It does not block.
func (l *listener) refuse(c net.Conn) {
	select {
	case l.turned <- struct{}{}:
	default:
		_ = c.Close() // the client sees a closed connection
		return
	}
	if l.closed {
		<-l.turned
		_ = c.Close()
		return
	}
	l.refusing.Go(func() {
		defer func() { <-l.turned }()
		sayCrowded(c)
	})
}

// sayCrowded sends the answer, and reads until the client closes the connection: if a connection is closed with unread
// input, the operating system may discard the answer.
func sayCrowded(c net.Conn) {
	defer func() { _ = c.Close() }() // ignore the error: the connection is of no more use
	_ = c.SetDeadline(time.Now().Add(refuseTime))
	if _, err := io.WriteString(c, overloadedAnswer); err != nil {
		return
	}
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}

// source returns the key for connections from an address: an IPv4 address, or the /64 prefix of an IPv6 address,
// because one host may have all addresses of the prefix.
func source(a net.Addr) string {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return ""
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is6() {
		return netip.PrefixFrom(ip, 64).Masked().String()
	}
	return ip.String()
}

// counted is a connection that holds a unit of the quota until it is closed. The mutex of its listener guards the
// fields below from.
type counted struct {
	net.Conn
	of   *listener
	from string

	requests int           // that the handler serves
	waits    *list.Element // of the listener's list; nil while there are requests
	left     bool          // the unit has been given back
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		c.leave()
	}()
	return c.Conn.Close()
}

// leave gives the unit back, once. Callers hold the mutex of the listener.
func (c *counted) leave() {
	if c.left {
		return
	}
	c.left = true
	c.of.open.give(c.from)
	if c.waits != nil {
		c.of.waiting.Remove(c.waits)
		c.waits = nil
	}
}

// LocalAddr implements net.Conn. Package http passes the result to handlers, and [serving] finds the connection by it.
func (c *counted) LocalAddr() net.Addr { return localAddr{c.Conn.LocalAddr(), c} }

// localAddr is the local address of a connection, with the connection.
type localAddr struct {
	net.Addr
	conn *counted
}

// serving notes that the connection of a request has one, so that its listener does not close it for another. It
// returns false if the listener has closed it. Call done when the request is answered.
func serving(ctx context.Context) (done func(), ok bool) {
	at, _ := ctx.Value(http.LocalAddrContextKey).(localAddr)
	if at.conn == nil {
		return func() {}, true // not a connection of Bound
	}
	c := at.conn
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.left {
		return nil, false
	}
	c.requests++
	if c.waits != nil {
		c.of.waiting.Remove(c.waits)
		c.waits = nil
	}
	return c.served, true
}

// served notes the end of a request.
func (c *counted) served() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.requests--; c.requests == 0 && !c.left {
		c.waits = c.of.waiting.PushBack(c)
	}
}
