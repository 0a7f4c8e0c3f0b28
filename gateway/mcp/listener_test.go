package mcp_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/gateway/mcp"
)

// bounded serves the door on a listener of its own.
func bounded(t *testing.T, o mcp.Options) (address string, f *fixture) {
	t.Helper()
	f = start(t)
	door := mcp.New(t.Context(), f.Client, o)
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
	return at.Addr().String(), f
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

// served reports whether a request over a connection is answered, and not with 503.
func served(t *testing.T, c net.Conn) bool {
	t.Helper()
	got := status(t, c)
	return got != 0 && got != http.StatusServiceUnavailable
}

// closed reports whether the gateway has closed a connection without an answer.
func closed(c net.Conn) bool {
	n, err := c.Read(make([]byte, 1))
	return n == 0 && !errors.Is(err, os.ErrDeadlineExceeded)
}

// S9: connections without a request, which send nothing or a part of the headers, keep nobody out. For a further
// connection of the address the oldest of them is closed.
func TestConnectionsWithoutRequest(t *testing.T) {
	to, _ := bounded(t, mcp.Options{MaxConnections: 8})
	var waiting []net.Conn
	for i := range 4 {
		waiting = append(waiting, dial(t, "127.0.0.1", to))
		if i%2 == 0 {
			_, _ = io.WriteString(waiting[i], "POST /mcp HTTP/1.1\r\nHost: ")
		}
	}
	for i := range 3 {
		if !served(t, dial(t, "127.0.0.1", to)) || !closed(waiting[i]) {
			t.Errorf("connection %d beyond the share", i)
		}
	}
	if !served(t, waiting[3]) {
		t.Error("the newest connection was closed before older ones")
	}
	if !served(t, dial(t, "127.0.0.2", to)) {
		t.Error("another address is not served")
	}
}

// The limit holds for all addresses together. A new one finds room where others have connections without a request.
func TestConnectionsOfManyAddresses(t *testing.T) {
	to, _ := bounded(t, mcp.Options{MaxConnections: 4})
	oldest := dial(t, "127.0.0.1", to)
	others := []net.Conn{dial(t, "127.0.0.1", to), dial(t, "127.0.0.2", to), dial(t, "127.0.0.3", to)}
	if !served(t, dial(t, "127.0.0.4", to)) || !closed(oldest) {
		t.Error("there is no room for a new address")
	}
	for i, c := range others {
		if !served(t, c) {
			t.Errorf("connection %d was closed, which is not the oldest one", i)
		}
	}
}

// Connections with a request are closed for no other. A further one of the address gets 503, until a request has ended.
func TestConnectionsWithRequest(t *testing.T) {
	to, f := bounded(t, mcp.Options{MaxConnections: 8})
	other := dial(t, "127.0.0.2", to)
	var busy []net.Conn
	for i := range 4 {
		body, header := modern("1", "hold", fmt.Sprintf(`{"text":"%d"}`, i), "")
		busy = append(busy, wire(t, "http://"+to, body, header))
		<-f.held
	}
	if got := status(t, dial(t, "127.0.0.1", to)); got != http.StatusServiceUnavailable {
		t.Errorf("the fifth connection of one address: %d", got)
	}
	if !served(t, other) {
		t.Error("an address beyond its share took the connection of another one")
	}
	close(f.hold)
	for _, c := range busy {
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s, %v", resp.Status, err)
		}
	}
	for end := time.Now().Add(20 * time.Second); !served(t, dial(t, "127.0.0.1", to)); {
		if time.Now().After(end) {
			t.Fatal("connections count as busy after their requests")
		}
	}
}

// An answer that is not read keeps neither the connection nor the door.
func TestRefusedAndSilent(t *testing.T) {
	to, f := bounded(t, mcp.Options{MaxConnections: 1})
	body, header := modern("1", "hold", `{"text":"a"}`, "")
	wire(t, "http://"+to, body, header)
	<-f.held
	defer close(f.hold)
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
