package mcp_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/gateway/mcp"
)

// wire sends a request over a connection of its own, from which nothing is read yet.
func wire(t *testing.T, url, body string, header http.Header) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the other side may have
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Clients that never read what they asked for hold nobody else up.
func TestNeverRead(t *testing.T) {
	f := start(t)
	s := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	for i := range 8 {
		body, header := modern("1", "count", `{"input":5000}`, fmt.Sprintf(`"progressToken":%d,`, i))
		wire(t, s.URL, body, header)
	}
	for _, protocol := range protocols {
		c := over(t, s, protocol, nil)
		for range 20 {
			if got := words(callNamed(t, c, "echo", `{"text":"a"}`, nil)); got != `{"text":"a"}` {
				t.Error(got)
			}
		}
	}
}

// Beyond what a door takes at once, clients are told so at once, and those that are served go on.
func TestTooMany(t *testing.T) {
	f := start(t)
	s := open(t, mcp.New(t.Context(), f.Client, mcp.Options{MaxRequests: 5}))
	var waiting []net.Conn
	for i := range 5 {
		body, header := modern("1", "hold", fmt.Sprintf(`{"text":"%d"}`, i), "")
		waiting = append(waiting, wire(t, s.URL, body, header))
		<-f.held
	}
	body, header := modern("1", "echo", `{"text":"a"}`, "")
	resp := send(t, t.Context(), s.URL, body, header)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %s", resp.Status)
	}
	close(f.hold)
	for _, conn := range waiting {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil || succeeded(string(text)) != 1 {
			t.Errorf("%s: %v", text, err)
		}
		_ = resp.Body.Close()
	}
}

func TestTooManySessions(t *testing.T) {
	f := start(t)
	s := open(t, mcp.New(t.Context(), f.Client, mcp.Options{MaxSessions: 2}))
	first := over(t, s, "2025-11-25", nil)
	second := over(t, s, "2025-11-25", nil)
	client := sdk.NewClient(&sdk.Implementation{Name: "third", Version: "1"}, nil)
	third, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.URL, MaxRetries: -1},
		&sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err == nil {
		_ = third.Close()
		t.Fatal("a third session")
	}
	modern := over(t, s, "2026-07-28", nil) // has none
	for _, c := range []*sdk.ClientSession{first, second, modern} {
		callNamed(t, c, "echo", `{"text":"a"}`, nil)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	callNamed(t, over(t, s, "2025-11-25", nil), "echo", `{"text":"a"}`, nil)
}

// A client whose answer is cut at any byte, be it of the headers, asks again behind another door and is told the same:
// it never runs twice.
func TestCut(t *testing.T) {
	f := start(t)
	first := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	other := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	for at, whole := 0, 1; at < whole; at++ {
		body, header := modern(fmt.Sprintf(`"f7c2a8f0-64a5-4d5e-9a51-%012d"`, at), "send", `{"text":"a"}`, "")
		conn := wire(t, first.URL, body, header)
		if at == 0 { // the whole answer, to see how long they are
			head := &bytes.Buffer{}
			resp, err := http.ReadResponse(bufio.NewReader(io.TeeReader(conn, head)), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Fatal(err)
			}
			whole = head.Len()
		} else if _, err := io.CopyN(io.Discard, conn, int64(at)); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		before := f.ran.Load()
		if status, answer := post(t, other.URL, body, header); status != http.StatusOK ||
			succeeded(answer) != 1 || f.ran.Load() != before {
			t.Fatalf("cut at %d of %d: %d %s; ran %d times more", at, whole, status, answer, f.ran.Load()-before)
		}
	}
}

// A session goes on behind another door, as far as calls go.
func TestTwoDoors(t *testing.T) {
	f := start(t)
	ctx, end := context.WithCancel(t.Context())
	door := mcp.New(ctx, f.Client, mcp.Options{})
	first := open(t, door)
	second := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	session := begin(t, first.URL)
	body := `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"hold","arguments":{"text":"a"}}}`
	wire(t, first.URL, body, session)
	<-f.held
	end() // as if the first door had died
	door.Close()
	answered := make(chan string)
	go func() {
		_, answer := post(t, second.URL, body, session)
		answered <- answer
	}()
	close(f.hold)
	if answer := <-answered; succeeded(answer) != 1 || len(f.held) > 0 {
		t.Errorf("%s; ran %d times more", answer, len(f.held))
	}
}
