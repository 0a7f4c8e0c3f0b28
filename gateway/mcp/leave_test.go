package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

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
				Code    int
				Message string
				Data    struct {
					Key, Ref, Effect string
				}
			}
		}
		answer = strings.ReplaceAll(answer, `"idempotency_key":`, `"key":`)
		if err := json.Unmarshal([]byte(answer), &told); err != nil || told.Error.Code != 503 ||
			told.Error.Data.Effect != "unknown" || !strings.HasPrefix(told.Error.Data.Ref, "hold.") ||
			!strings.HasSuffix(told.Error.Message, " io.toolbus/idempotency_key: "+told.Error.Data.Key) {
			t.Fatalf("%s, %v", answer, err)
		}
		key := fmt.Sprintf(`"io.toolbus/idempotency_key":%q,`, told.Error.Data.Key)
		body, header := modern("1", "hold", `{"text":"a"}`, key)
		if _, again := post(t, second.URL, body, header); succeeded(again) != 1 {
			t.Error(again)
		}
	}
	if more := len(f.held); more > 0 {
		t.Errorf("asked again, it ran %d times more", more)
	}
}

// A request that its client has cancelled gets no answer, in any version of the protocol, alone, twice and in a batch.
func TestCancelledUnanswered(t *testing.T) {
	for _, protocol := range []string{"2025-11-25", "2025-03-26", "2026-07-28"} {
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
		common := ""
		if protocol == "2026-07-28" {
			common = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`
		} else {
			say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + protocol +
				`","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`)
			answers.Scan()
			say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		}
		call := func(id, tool, meta string) string {
			if meta != "" && common != "" {
				meta += ","
			}
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":{"text":"a%s"},`+
				`"_meta":{%s%s}}}`, id, tool, id, meta, common)
		}
		cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`
		for _, meta := range []string{"", `"io.toolbus/idempotency_key":"a-key-of-the-client"`} {
			say(call("1", "hold", meta))
			<-f.held
			say(fmt.Sprintf(cancel, 1))
		}
		if protocol == "2025-03-26" {
			say("[" + call("3", "hold", "") + "]")
			<-f.held
			say(fmt.Sprintf(cancel, 3))
			say("[" + call("4", "hold", "") + "," + call("5", "echo", "") + "]")
			<-f.held
			say(fmt.Sprintf(cancel, 4))
			if !answers.Scan() || !strings.HasPrefix(answers.Text(), `[{"jsonrpc":"2.0","id":5,`) {
				t.Errorf("%s: %s", protocol, answers.Text())
			}
		}
		say(call("6", "echo", ""))
		if !answers.Scan() || !strings.Contains(answers.Text(), `"id":6,`) {
			t.Errorf("%s: %s", protocol, answers.Text())
		}
		close(f.hold)
		if err := asks.Close(); err != nil {
			t.Error(err)
		}
		if answers.Scan() {
			t.Errorf("%s: %s", protocol, answers.Text())
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	}
}

// Over HTTP the request of a session ends without a message if it was cancelled.
func TestCancelledOverHTTP(t *testing.T) {
	for _, o := range []mcp.Options{{}, {HTTPHold: time.Nanosecond}} {
		f := start(t)
		s := open(t, mcp.New(t.Context(), f.Client, o))
		header := begin(t, s.URL)
		type answer struct {
			status int
			text   string
		}
		answers := make(chan answer)
		go func() {
			status, text := post(t, s.URL, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"hold",`+
				`"arguments":{"text":"a"}}}`, header)
			answers <- answer{status, text}
		}()
		<-f.held
		post(t, s.URL, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`, header)
		a := <-answers
		if strings.Contains(a.text, "error") || (a.status == http.StatusAccepted && a.text == "") != (o.HTTPHold == 0) {
			t.Errorf("%+v", a)
		}
		<-f.ends
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
