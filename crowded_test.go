package toolbus_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
)

// fullServer is a server by hand that accepts one connection, ends it, and has no room for any other.
func fullServer(t *testing.T) (url string, end func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	first := make(chan net.Conn, 1)
	serving.Go(func() {
		for pong := "PONG"; ; pong = "-ERR 'maximum account active connections exceeded'" {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if pong == "PONG" {
				first <- conn
			}
			serving.Go(func() { serveBadly(conn, pong) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	return "nats://" + listener.Addr().String(), func() { _ = (<-first).Close() }
}

// serveBadly answers each PING, and hands on nothing.
func serveBadly(conn net.Conn, pong string) {
	defer func() { _ = conn.Close() }()
	const info = `INFO {"server_id":"S","version":"2.15.2","proto":1,"headers":true,"max_payload":1048576}`
	_, _ = fmt.Fprint(conn, info, "\r\n")
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if lines.Text() != "PING" {
			continue
		}
		if _, err := fmt.Fprint(conn, pong, "\r\n"); err != nil || pong != "PONG" {
			return
		}
	}
}

// A client that finds no room for its connection when it connects again says so in the answer that it makes at the
// deadline, and does not take its token for revoked.
func TestNoRoomToReconnect(t *testing.T) {
	keys, err := deployment.NewKeys("test")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := keys.Signer()
	if err != nil {
		t.Fatal(err)
	}
	token, err := signer.Mint(auth.Principal{
		Tenant: "default", Actor: "agent://a", Role: auth.Agent, ID: auth.NewID(), Family: auth.NewID(),
		Issued: time.Now(), Expires: time.Now().Add(time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	url, end := fullServer(t)
	conn, err := toolbus.Connect(t.Context(), url, toolbus.Options{CredentialsFile: file})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c, err := conn.Client(toolbus.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }() // it is without a connection
	end()
	r, err := toolbus.Outcome(c.Call(t.Context(), toolbus.Call{Tool: "hi", Timeout: time.Second}))
	if err != nil || r.Error == nil || r.Error.Code != envelope.CodeTimeout || r.Provenance.Final ||
		r.Error.Cause != bus.ErrCrowded.Error() || !strings.Contains(r.Error.Fix, "close connections") {
		t.Errorf("%+v, %v", r.Error, err)
	}
	if _, err := toolbus.Connect(t.Context(), url,
		toolbus.Options{CredentialsFile: file}); !bus.Crowded(err) || bus.Denied(err) {
		t.Error(err)
	}
}
