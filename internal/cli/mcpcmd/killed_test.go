package mcpcmd

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// doorProcess starts a gateway in a process of its own, and returns the process and its URL.
func doorProcess(t *testing.T, bus string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "door", bus)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have been killed before
		_ = cmd.Wait()         // and waited for
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, url, ok := strings.Cut(strings.TrimSpace(line), "served at ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd, url
}

// post sends an MCP request, and returns as much of the answer as it gets.
func post(t *testing.T, url, body string, header http.Header) (answer string, of http.Header, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return "", nil, err
	}
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	text, err := io.ReadAll(resp.Body)
	return string(text), resp.Header, err
}

// A gateway that gets SIGKILL during a call loses nothing. A client that asks another gateway, with the same key or in
// the same session, gets the one outcome, and the effect happens once.
func TestKilled(t *testing.T) {
	tools, held, hold := toolbus.NewToolset(), make(chan struct{}, 10), make(chan struct{})
	if err := toolbus.Add(tools, toolbus.Tool{ID: "pay", Class: toolbus.SideEffectful},
		func(context.Context, *toolbus.Run, struct{}) (string, error) {
			held <- struct{}{}
			<-hold
			return "paid", nil
		}); err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(t, tools)
	_, other := doorProcess(t, bus.URL)
	for name, c := range map[string]struct {
		header      http.Header
		begin, call string
	}{
		"a key": {
			http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"pay"}}, "",
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{},"_meta":{` +
				`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
				`"io.toolbus/idempotency_key":"the-key-of-this-payment"}}}`,
		},
		"a session": {
			http.Header{"Mcp-Protocol-Version": {"2025-11-25"}},
			`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
				`"clientInfo":{"name":"x","version":"1"}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			first, url := doorProcess(t, bus.URL)
			if c.begin != "" {
				_, of, err := post(t, url, c.begin, c.header)
				if err != nil {
					t.Fatal(err)
				}
				c.header.Set("Mcp-Session-Id", of.Get("Mcp-Session-Id"))
			}
			cut := make(chan error, 1)
			go func() { _, _, err := post(t, url, c.call, c.header); cut <- err }()
			<-held
			if err := first.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := <-cut; err == nil {
				t.Error("the door that was killed has answered")
			}
			again := make(chan string, 2)
			for range 2 { // while the call runs; later requests get the same answer
				go func() { answer, _, _ := post(t, other, c.call, c.header); again <- answer }()
			}
			hold <- struct{}{}
			for range 2 {
				if answer := <-again; !strings.Contains(answer, `"text":"paid"`) {
					t.Error(answer)
				}
			}
		})
	}
	if more := len(held); more > 0 {
		t.Errorf("asked again, the tool ran %d times more", more)
	}
}
