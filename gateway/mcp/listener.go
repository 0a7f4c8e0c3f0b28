package mcp

import (
	"io"
	"net"
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
// limit is a [quota] for addresses, so one address holds at most half of it.
type listener struct {
	net.Listener

	mu       sync.Mutex
	open     quota
	closed   bool
	refusing sync.WaitGroup
	turned   chan struct{} // one element for each connection that gets a 503 before it is closed
}

// Bound returns a listener that accepts connections of at, at most [Options.MaxConnections] at once. Further
// connections are answered with 503 and closed. Close of the listener waits for these answers for at most 1 s.
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
		from := source(c.RemoteAddr())
		l.mu.Lock()
		admitted := l.open.take(from)
		if !admitted {
			l.refuse(c)
		}
		l.mu.Unlock()
		if admitted {
			return &counted{Conn: c, ended: sync.OnceFunc(func() { l.ended(from) })}, nil
		}
	}
}

func (l *listener) ended(from string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open.give(from)
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

// counted is a connection that holds a unit of the quota until it is closed.
type counted struct {
	net.Conn
	ended func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.ended()
	return c.Conn.Close()
}
