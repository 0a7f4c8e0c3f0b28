package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
)

// A door that closes says so to whoever waits for a call, and by which key it is found.
func TestClosed(t *testing.T) {
	f := start(t)
	door := mcp.New(t.Context(), f.Client, mcp.Options{})
	first, second := open(t, door), open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	answers := make(chan string, 2)
	ask := func(body string, header http.Header) {
		go func() { _, answer := post(t, first.URL, body, header); answers <- answer }()
		<-f.held
	}
	ask(modern("1", "hold", `{"text":"a"}`, ""))
	ask(
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hold","arguments":{"text":"a"}}}`,
		begin(t, first.URL),
	)
	door.Close()
	close(f.hold)
	for range 2 {
		answer := <-answers
		var told struct {
			Error struct {
				Code int
				Data struct {
					Key, Ref, Effect string
				}
			}
		}
		answer = strings.ReplaceAll(answer, "idempotency_key", "key")
		if err := json.Unmarshal([]byte(answer), &told); err != nil || told.Error.Code != 503 ||
			told.Error.Data.Effect != "unknown" || !strings.HasPrefix(told.Error.Data.Ref, "hold.") {
			t.Fatalf("%s, %v", answer, err)
		}
		key := fmt.Sprintf(`"io.toolbus/idempotency_key":%q,`, told.Error.Data.Key)
		body, header := modern("1", "hold", `{"text":"a"}`, key)
		if _, again := post(t, second.URL, body, header); !strings.Contains(again, `"io.toolbus/outcome":"success"`) {
			t.Error(again)
		}
	}
	if more := len(f.held); more > 0 {
		t.Errorf("asked again, it ran %d times more", more)
	}
}

// A request that was cancelled is answered with that, in words.
func TestCancelledAnswer(t *testing.T) {
	f := start(t)
	in, asks := io.Pipe()
	hears, out := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- mcp.New(t.Context(), f.Client, mcp.Options{}).Serve(t.Context(), in, out)
		_ = out.Close()
	}()
	answers := bufio.NewScanner(hears)
	say := func(message string) {
		t.Helper()
		if _, err := io.WriteString(asks, message+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
		`"clientInfo":{"name":"x","version":"1"}}}`)
	answers.Scan()
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for meta, want := range map[string]string{
		`{}`: "the work of its call with it", `{"io.toolbus/idempotency_key":"a-key-of-the-client"}`: "the call goes on",
	} {
		say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hold","arguments":{"text":"a"},"_meta":` +
			meta + `}}`)
		<-f.held
		say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		if !answers.Scan() || !strings.Contains(answers.Text(), `"code":499`) || !strings.Contains(answers.Text(), want) {
			t.Errorf("no %q in %s", want, answers.Text())
		}
	}
	close(f.hold)
	if err := asks.Close(); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// A bus that is away is said to be, and that nothing was done.
func TestNoBus(t *testing.T) {
	f := start(t)
	conn, err := toolbus.Connect(t.Context(), f.URL, toolbus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	away, err := conn.Client(toolbus.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, mcp.New(t.Context(), away, mcp.Options{}))
	_ = away.Close() // the connection ends next
	conn.Close()
	body, header := modern("1", "echo", `{"text":"a"}`, "")
	_, answer := post(t, s.URL, body, header)
	for _, want := range []string{`"code":503`, `"effect":"none"`, `"retry_after_ms":1000`} {
		if !strings.Contains(answer, want) {
			t.Errorf("no %s in %s", want, answer)
		}
	}
}
