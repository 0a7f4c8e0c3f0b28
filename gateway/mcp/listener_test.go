package mcp_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/gateway/mcp"
)

// bounded serves the door on a listener of its own.
func bounded(t *testing.T, o mcp.Options) (address string) {
	t.Helper()
	door := mcp.New(t.Context(), start(t).Client, o)
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, served := &http.Server{Handler: door.Handler()}, make(chan error, 1)
	go func() { served <- s.Serve(door.Bound(at)) }()
	t.Cleanup(func() {
		_ = s.Close()
		<-served
		door.Close()
	})
	return at.Addr().String()
}

// dial opens a connection from an address of this machine.
func dial(t *testing.T, from, to string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the other side may have
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// status is what a request over a connection is answered with, or 0.
func status(t *testing.T, c net.Conn) int {
	t.Helper()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+c.RemoteAddr().String()+"\r\n\r\n") // it may be closed
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// Connections that send nothing count. One address has half of them at most, and what it has more is answered 503 and
// closed; others find room, and so does the first one when it has closed one.
func TestConnectionsBounded(t *testing.T) {
	to := bounded(t, mcp.Options{MaxConnections: 8})
	var silent []net.Conn
	for range 4 {
		silent = append(silent, dial(t, "127.0.0.1", to))
	}
	if got := status(t, dial(t, "127.0.0.1", to)); got != http.StatusServiceUnavailable {
		t.Errorf("the fifth connection of one address: %d", got)
	}
	other := dial(t, "127.0.0.2", to)
	if got := status(t, other); got == 0 || got == http.StatusServiceUnavailable {
		t.Errorf("another address: %d", got)
	}
	if got := status(t, silent[0]); got == 0 || got == http.StatusServiceUnavailable {
		t.Errorf("the first connection: %d", got)
	}
	_ = silent[1].Close()
	_ = silent[2].Close()
	for end := time.Now().Add(20 * time.Second); ; { // the door hears of it in its own time
		if got := status(t, dial(t, "127.0.0.1", to)); got != http.StatusServiceUnavailable {
			break
		}
		if time.Now().After(end) {
			t.Fatal("connections that are closed count for ever")
		}
	}
}

// An answer that is not read keeps neither the connection nor the door.
func TestRefusedAndSilent(t *testing.T) {
	to := bounded(t, mcp.Options{MaxConnections: 1})
	dial(t, "127.0.0.1", to)
	var refused []net.Conn
	for range 200 { // more than are told why at once
		refused = append(refused, dial(t, "127.0.0.1", to))
	}
	for _, c := range refused {
		if text, err := io.ReadAll(c); err == nil && len(text) > 0 && string(text[:12]) != "HTTP/1.1 503" {
			t.Fatalf("%q", text)
		}
	}
}
