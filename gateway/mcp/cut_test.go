package mcp_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/gateway/mcp"
)

// cuts is the number of positions of an answer at which the test closes the connection.
const cuts = 200

// agent is a client whose requests may come again.
type agent struct {
	name string
	// ask returns the n-th request of the agent.
	ask func(t *testing.T, n int, tool string) (body string, header http.Header)
}

// agents are a client of each kind whose resend the door recognises. That of sessions begins one at the first door.
func agents(t *testing.T, first string) []agent {
	t.Helper()
	header := begin(t, first)
	return []agent{
		{"2025-11-25", func(_ *testing.T, n int, tool string) (string, http.Header) {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":"a"}}}`,
				n+10, tool), header
		}},
		{"2025-11-25 with a key", func(_ *testing.T, n int, tool string) (string, http.Header) {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":"a"},`+
				`"_meta":{"io.toolbus/idempotency_key":"a-key-of-a-session-%d"}}}`, n+1_000_000, tool, n), header
		}},
		{"2026-07-28 with a UUID", func(t *testing.T, _ int, tool string) (string, http.Header) {
			return modern(fmt.Sprintf("%q", uuid.NewString()), tool, `{"text":"a"}`, "")
		}},
		{"2026-07-28 with a key", func(_ *testing.T, n int, tool string) (string, http.Header) {
			return modern("1", tool, `{"text":"a"}`, fmt.Sprintf(`"io.toolbus/idempotency_key":"a-key-of-a-client-%d",`, n))
		}},
	}
}

// read reads the first bytes of an answer, or all of it, and returns them.
func read(t *testing.T, from net.Conn, most int) string {
	t.Helper()
	head := &bytes.Buffer{}
	if most >= 0 {
		if _, err := io.CopyN(head, from, int64(most)); err != nil {
			t.Fatal(err)
		}
		return head.String()
	}
	resp, err := http.ReadResponse(bufio.NewReader(io.TeeReader(from, head)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return head.String()
}

// again asks again through a door, and checks that this is the one outcome.
func again(t *testing.T, s *httptest.Server, body string, header http.Header, where string) {
	t.Helper()
	status, answer := post(t, s.URL, body, header)
	if status != http.StatusOK || succeeded(answer) != 1 ||
		!strings.Contains(answer, `{\"text\":\"a\"}`) {
		t.Fatalf("%s: %d %s", where, status, answer)
	}
}

// A client that is cut at any of 200 positions of the answer asks again, through the same door and through another one:
// there is one effect and one outcome.
func TestCutAnswer(t *testing.T) {
	f := start(t)
	first := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	other := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	for _, a := range agents(t, first.URL) {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			body, header := a.ask(t, 0, "echo")
			whole := len(read(t, wire(t, first.URL, body, header), -1))
			for n := range cuts {
				body, header := a.ask(t, n+1, "send")
				conn := wire(t, first.URL, body, header)
				at := whole * n / cuts
				read(t, conn, at)
				_ = conn.Close()
				for i, s := range []*httptest.Server{first, other} {
					again(t, s, body, header, fmt.Sprintf("cut at %d of %d, door %d", at, whole, i))
				}
			}
		})
	}
	t.Cleanup(func() {
		if n := f.ran.Load(); n != 4*cuts {
			t.Errorf("%d calls had %d effects", 4*cuts, n)
		}
	})
}

// A client that is cut while its call runs asks again, through the same door and through another one, while it runs:
// all join it, also when one of them is cut, too.
func TestCutWhileRunning(t *testing.T) {
	f := start(t)
	first := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	other := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	for i, a := range agents(t, first.URL) {
		t.Run(a.name, func(t *testing.T) {
			f.hold = make(chan struct{})
			body, header := a.ask(t, cuts*2+i, "hold")
			conn := wire(t, first.URL, body, header)
			<-f.held
			_ = conn.Close()
			for _, s := range []*httptest.Server{first, other} {
				wire(t, s.URL, body, header).Close()
			}
			answers := make(chan string, 4)
			for _, s := range []*httptest.Server{first, other, first, other} {
				conn := wire(t, s.URL, body, header)
				go func() { answers <- whole(conn) }()
			}
			for _, s := range []*httptest.Server{first, other} { // is answered behind them
				body, header := modern("1", "echo", `{"text":"a"}`, "")
				again(t, s, body, header, "another call")
			}
			close(f.hold)
			for range cap(answers) {
				if answer := <-answers; !strings.HasPrefix(answer, "HTTP/1.1 200") ||
					succeeded(answer) != 1 {
					t.Error(answer)
				}
			}
			if err := <-f.ends; err != nil || len(f.held) > 0 {
				t.Errorf("it ended with %v, and ran %d times more", err, len(f.held))
			}
		})
	}
}

// whole is a whole answer.
func whole(from net.Conn) string {
	text := &bytes.Buffer{}
	resp, err := http.ReadResponse(bufio.NewReader(io.TeeReader(from, text)), nil)
	if err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err != nil {
		return err.Error() + text.String()
	}
	return text.String()
}
