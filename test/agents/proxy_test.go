package agents

import (
	"bytes"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"
)

// cutBytes is less than the shortest answer to a call has, with its head.
const cutBytes = 300

// throughIdle starts a proxy before a server, and returns the URL of the server there. The proxy ends connections on
// which nothing has come for a time, as those of clouds do.
func throughIdle(t *testing.T, server string, most time.Duration) string {
	t.Helper()
	at := proxy(t, server, func(client, upstream net.Conn) {
		end := func() { _ = client.Close(); _ = upstream.Close() }
		idle := time.AfterFunc(most, end)
		defer idle.Stop()
		heard := func([]byte) int { idle.Reset(most); return -1 }
		go func() { defer end(); pass(upstream, client, heard) }()
		pass(client, upstream, heard)
		end()
	})
	quiet, err := net.Dial("tcp", mustParse(t, at).Host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = quiet.Close() }() // nothing was written
	began := time.Now()
	if _, err := quiet.Read(make([]byte, 1)); err == nil || time.Since(began) > 2*most {
		t.Errorf("an idle connection has ended after %s: %v", time.Since(began), err)
	}
	return at
}

// throughCuts starts a proxy before a server that cuts the answer to each call of a tool, each at another position.
func throughCuts(t *testing.T, server string) string {
	t.Helper()
	var calls atomic.Int64
	return proxy(t, server, func(client, upstream net.Conn) {
		var left atomic.Int64 // bytes until the cut, and one more; 0 is without a cut
		end := func() { _ = client.Close(); _ = upstream.Close() }
		go func() {
			defer end()
			pass(upstream, client, func(asked []byte) int {
				if bytes.Contains(asked, []byte(`"tools/call"`)) {
					left.Store(1 + calls.Add(1)%cutBytes)
				}
				return -1
			})
		}()
		pass(client, upstream, func(answer []byte) int {
			now := left.Load()
			if now == 0 || left.Add(-int64(len(answer))) > 0 {
				return -1
			}
			return int(now - 1)
		})
		end()
	})
}

// pass copies until one end is closed. Its function sees each part first, and returns after how many of its bytes to
// stop, or -1.
func pass(to, from net.Conn, see func([]byte) int) {
	for buffer := make([]byte, 64<<10); ; {
		n, err := from.Read(buffer)
		if most := see(buffer[:n]); most >= 0 {
			_, _ = to.Write(buffer[:most]) // then it is cut
			return
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

// proxy serves connections before a server until the test ends, and returns the URL of the server there.
func proxy(t *testing.T, server string, serve func(client, upstream net.Conn)) string {
	t.Helper()
	at := mustParse(t, server)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() }) // no connection is waited for
	host := at.Host
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", host)
			if err != nil {
				_ = client.Close()
				continue
			}
			go serve(client, upstream)
		}
	}()
	at.Host = l.Addr().String()
	return at.String()
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
