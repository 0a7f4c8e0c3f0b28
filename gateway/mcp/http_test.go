package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
)

// open serves a door over HTTP until the test ends.
func open(t testing.TB, door *mcp.Server) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(door.Handler())
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		door.Close()
	})
	return s
}

// over connects a client over HTTP.
func over(t testing.TB, s *httptest.Server, protocol string, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	session := join(
		t,
		&sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: s.Client(), MaxRetries: -1},
		protocol,
		o,
	)
	t.Cleanup(func() { _ = session.Close() }) // the server may have gone
	return session
}

// post sends a request as it is, and returns the answer.
func post(t *testing.T, url, body string, header http.Header) (status int, answer string) {
	t.Helper()
	resp := send(t, t.Context(), url, body, header)
	defer func() { _ = resp.Body.Close() }() // it was read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func send(t *testing.T, ctx context.Context, url, body string, header http.Header) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header.Clone()
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// session is the header of requests of a session of 2025-11-25.
func session(id string) http.Header {
	return http.Header{"Mcp-Protocol-Version": {"2025-11-25"}, "Mcp-Session-Id": {id}}
}

// begin begins a session, and returns the header of its requests.
func begin(t *testing.T, url string) http.Header {
	t.Helper()
	resp := send(t, t.Context(), url, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+
		`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, http.Header{})
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	h := session(resp.Header.Get("Mcp-Session-Id"))
	post(t, url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, h)
	return h
}

// modern is a call of a tool as a client of 2026-07-28 sends it.
func modern(id, tool, arguments, meta string) (body string, header http.Header) {
	body = fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{%s`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		id, tool, arguments, meta)
	return body, http.Header{
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {tool},
	}
}

// succeeded returns how many results of successful calls an answer has.
func succeeded(answer string) int {
	return strings.Count(answer, `"io.toolbus/ref":`) - strings.Count(answer, `"isError":true`)
}

func TestOverHTTP(t *testing.T) {
	f := start(t)
	s := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			c := over(t, s, protocol, nil)
			if got := c.InitializeResult().ProtocolVersion; got != protocol {
				t.Fatalf("speaks %s", got)
			}
			if tools, err := c.ListTools(t.Context(), nil); err != nil || len(tools.Tools) != 5 {
				t.Fatalf("%v: %v", tools, err)
			}
			if got := words(callNamed(t, c, "echo", `{"text":"hello"}`, nil)); got != `{"text":"hello"}` {
				t.Error(got)
			}
			_, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "nothing"})
			wantCode(t, err, jsonrpc.CodeInvalidParams)
		})
	}
}

// A key makes two requests one call, over whichever session, door and protocol they come; with other arguments it is
// refused.
func TestKeys(t *testing.T) {
	f := start(t)
	first, second := open(
		t,
		mcp.New(t.Context(), f.Client, mcp.Options{}),
	), open(
		t,
		mcp.New(t.Context(), f.Client, mcp.Options{}),
	)
	meta := sdk.Meta{envelope.MetaIdempotencyKey: "one-key-for-all-of-them"}
	for _, s := range []*httptest.Server{first, second} {
		for _, protocol := range protocols {
			c := over(t, s, protocol, nil)
			if got := words(callNamed(t, c, "send", `{"text":"once"}`, meta)); got != `{"text":"once"}` {
				t.Error(got)
			}
			res := callNamed(t, c, "send", `{"text":"else"}`, meta)
			if !res.IsError || res.Meta[envelope.MetaCode] != "I-REQ-KEY_REUSED" || res.Meta[envelope.MetaEffect] != "none" {
				t.Errorf("%s: %v", words(res), res.Meta)
			}
		}
	}
	if n := f.ran.Load(); n != 1 {
		t.Errorf("ran %d times", n)
	}
	body, header := modern("1", "send", `{"text":"twice"}`, "")
	header.Set(mcp.HeaderKey, "a-key-in-a-header-is-one-too")
	for range 2 {
		if status, answer := post(
			t,
			first.URL,
			body,
			header,
		); status != http.StatusOK ||
			strings.Contains(answer, "isError") {
			t.Errorf("%d %s", status, answer)
		}
	}
	if n := f.ran.Load(); n != 2 {
		t.Errorf("ran %d times", n)
	}
}

// What a client sends again without a key is one call where it can be told, and two where it cannot.
func TestResent(t *testing.T) {
	f := start(t)
	first, second := open(
		t,
		mcp.New(t.Context(), f.Client, mcp.Options{}),
	), open(
		t,
		mcp.New(t.Context(), f.Client, mcp.Options{}),
	)
	legacy := func(id, text string) string {
		return fmt.Sprintf(
			`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"send","arguments":{"text":%q}}}`,
			id,
			text,
		)
	}
	ours := begin(t, first.URL)
	send := func(name string, s *httptest.Server, body string, header http.Header, want int64) {
		t.Helper()
		before := f.ran.Load()
		status, answer := post(t, s.URL, body, header)
		if status != http.StatusOK || succeeded(answer) != 1 {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		if n := f.ran.Load() - before; n != want {
			t.Errorf("%s: ran %d times, want %d", name, n, want)
		}
	}
	send("a call", first, legacy("7", "a"), ours, 1)
	send("again, in the same session", first, legacy("7", "a"), ours, 0)
	send("again, through another door", second, legacy("7", "a"), ours, 0)
	send("again, with its number spelled in another way", first, legacy("7.0", "a"), ours, 0)
	send("again, as a power of ten", second, legacy("70e-1", "a"), ours, 0)
	send("the model's second call", first, legacy("8", "a"), ours, 1)
	send("an id of another type", first, legacy(`"7"`, "a"), ours, 1)
	send("an id used again for something else", first, legacy("7", "b"), ours, 1)
	send("another session with the same number", second, legacy("7", "a"), session("of-another-client-0001"), 1)

	body, header := modern("7", "send", `{"text":"a"}`, "")
	send("without a session", first, body, header, 1)
	send("without a session, a number that any client may have", first, body, header, 1)
	body, header = modern(`"a-client-that-counts-7"`, "send", `{"text":"a"}`, "")
	send("without a session, a number with words before it", first, body, header, 1)
	send("the same", first, body, header, 1)
	body, header = modern(`"0c2f3f0e-3f7e-4a53-9f5d-6d8c1f3b2a10"`, "send", `{"text":"a"}`, "")
	send("without a session, an id of its own", first, body, header, 1)
	send("the same, again and elsewhere", second, body, header, 0)
}

// A body that is no message is answered with what is wrong with it, and no id is taken for another one.
func TestMalformed(t *testing.T) {
	f := start(t)
	s := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	ping := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }
	for body, want := range map[string]string{
		"{":                                     `"code":-32700`,
		"5":                                     "a message is an object",
		ping("1") + ping("2"):                   `"code":-32700`,
		ping("1.5"):                             `"id":1.5`,
		ping("1e30"):                            `"id":1e30`,
		ping("null"):                            `"code":-32600`,
		ping("[]"):                              `"code":-32600`,
		"[" + ping("1") + "," + ping("1") + "]": "an id of its own",
	} {
		status, answer := post(t, s.URL, body, session("s"))
		if status != http.StatusBadRequest || !json.Valid([]byte(answer)) || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
}

// An unknown method is answered with an error that has the id of the request, in a session, before one, and without.
func TestUnknownMethod(t *testing.T) {
	f := start(t)
	s := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	for what, header := range map[string]http.Header{
		"another's session": session("s"), "before a session": {}, "own session": session(over(t, s, "2025-11-25", nil).ID()),
	} {
		status, answer := post(t, s.URL, `{"jsonrpc":"2.0","id":"n","method":"nonsense"}`, header)
		if status != http.StatusBadRequest || !json.Valid([]byte(answer)) ||
			!strings.HasPrefix(answer, `{"jsonrpc":"2.0","id":"n","error":{"code":-32601,`) ||
			!strings.Contains(answer, "nonsense") {
			t.Errorf("%s: %d %s", what, status, answer)
		}
	}
}

// A key in a header is of one call: with a batch of them it would make them one.
func TestBatchWithKey(t *testing.T) {
	f := start(t)
	s := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	send := `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"send","arguments":{"text":"a"}}}`
	batch := fmt.Sprintf("["+send+","+send+"]", 1, 2)
	header := session("s")
	header.Set("Mcp-Protocol-Version", "2025-03-26")
	if status, answer := post(t, s.URL, batch, header); status != http.StatusOK || f.ran.Load() != 2 {
		t.Errorf("ran %d times: %d %s", f.ran.Load(), status, answer)
	}
	header.Set(mcp.HeaderKey, "a-key-in-a-header-of-a-batch")
	if status, answer := post(t, s.URL, batch, header); status != http.StatusBadRequest || f.ran.Load() != 2 {
		t.Errorf("ran %d times: %d %s", f.ran.Load(), status, answer)
	}
}

// A client that goes away ends the work of a call that nobody can ask for any more, and of no other.
func TestGone(t *testing.T) {
	f := start(t)
	s := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	gone := func(id, meta string) {
		t.Helper()
		ctx, cut := context.WithCancel(t.Context())
		body, header := modern(id, "hold", `{"text":`+fmt.Sprintf("%q", id+meta)+`}`, meta)
		done := make(chan struct{})
		go func() {
			defer close(done)
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header = header
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Accept", "application/json, text/event-stream")
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close() // it failed
			}
			if !errors.Is(err, context.Canceled) {
				t.Error("the request ended:", err)
			}
		}()
		<-f.held
		cut()
		<-done
	}
	gone("1", "")
	if err := <-f.ends; err == nil {
		t.Error("the work of a plain call went on")
	}
	gone("1", `"io.toolbus/idempotency_key":"a-key-to-ask-with-again",`)
	gone(`"5f0d3a5e-7c58-4f0e-9b43-1a4f6f3c9d11"`, "")
	close(f.hold)
	for range 2 {
		if err := <-f.ends; err != nil {
			t.Error("the work of a call that may be asked for was cancelled:", err)
		}
	}
	body, header := modern(`"5f0d3a5e-7c58-4f0e-9b43-1a4f6f3c9d11"`, "hold",
		`{"text":"\"5f0d3a5e-7c58-4f0e-9b43-1a4f6f3c9d11\""}`, "")
	if _, answer := post(t, s.URL, body, header); succeeded(answer) != 1 {
		t.Error(answer)
	}
	if len(f.held) > 0 {
		t.Error("asked again, it ran again")
	}
}

// A client that cancels ends the work, in every protocol.
func TestCancelled(t *testing.T) {
	f := start(t)
	door := mcp.New(t.Context(), f.Client, mcp.Options{})
	s := open(t, door)
	for _, protocol := range protocols {
		for name, c := range map[string]*sdk.ClientSession{
			"http": over(t, s, protocol, nil), "memory": f.connect(t, door, protocol, nil),
		} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				go func() { <-f.held; cancel() }()
				_, err := c.CallTool(ctx, &sdk.CallToolParams{Name: "hold", Arguments: text{protocol + name}})
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				if err := <-f.ends; err == nil {
					t.Error("the work went on")
				}
			})
		}
	}
}

func TestProgress(t *testing.T) {
	f := start(t)
	door := mcp.New(t.Context(), f.Client, mcp.Options{})
	s := open(t, door)
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			for _, name := range []string{"http", "memory"} {
				told := make(chan *sdk.ProgressNotificationParams, 1000) // some may come behind the answer
				o := &sdk.ClientOptions{
					ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
						told <- r.Params
					},
				}
				connect := func() *sdk.ClientSession { return over(t, s, protocol, o) }
				if name == "memory" {
					connect = func() *sdk.ClientSession { return f.connect(t, door, protocol, o) }
				}
				c := connect()
				p := &sdk.CallToolParams{Name: "count", Arguments: map[string]int{"input": 200}}
				p.SetProgressToken(name)
				began := time.Now()
				if _, err := c.CallTool(t.Context(), p); err != nil {
					t.Fatal(err)
				}
				most := int(time.Since(began)/(100*time.Millisecond)) + 10
				first := <-told
				if first.ProgressToken != name || first.Progress < 1 || first.Total != 200 {
					t.Errorf("%s: %+v", name, first)
				}
				if more := len(told); more > most {
					t.Errorf("%s: told %d times more, at most %d were due", name, more, most)
				}
				for last := first; len(told) > 0; {
					next := <-told
					if next.Progress <= last.Progress {
						t.Errorf("%s: told %v after %v", name, next.Progress, last.Progress)
					}
					last = next
				}
			}
		})
	}
}

// What clients say in the door's own headers, or twice, is not taken for anything.
func TestSmuggled(t *testing.T) {
	f := start(t)
	s := open(t, mcp.New(t.Context(), f.Client, mcp.Options{MaxBody: 1000}))
	body, header := modern("1", "send", `{"text":"a"}`, "")
	header["Toolbus-Mcp-Session"], header["Toolbus-Mcp-Id"] = []string{"s"}, []string{"sthe-id-of-another-request"}
	for range 2 {
		if status, answer := post(t, s.URL, body, header); status != http.StatusOK {
			t.Errorf("%d %s", status, answer)
		}
	}
	if n := f.ran.Load(); n != 2 {
		t.Errorf("ran %d times", n)
	}
	for name, change := range map[string]func(h http.Header) (status int){
		"two versions": func(h http.Header) int {
			h.Add("Mcp-Protocol-Version", "2025-11-25")
			return http.StatusBadRequest
		},
		"another tool": func(h http.Header) int { h.Set("Mcp-Name", "echo"); return http.StatusBadRequest },
		"no method":    func(h http.Header) int { h.Del("Mcp-Method"); return http.StatusBadRequest },
		"another site": func(h http.Header) int { h.Set("Origin", "https://example.com"); return http.StatusForbidden },
		"an old body":  func(h http.Header) int { h.Set("Mcp-Protocol-Version", "2025-11-25"); return http.StatusBadRequest },
		"no such":      func(h http.Header) int { h.Set("Mcp-Protocol-Version", "1999-01-01"); return http.StatusBadRequest },
		"two keys":     func(h http.Header) int { h["Idempotency-Key"] = []string{"a", "b"}; return http.StatusBadRequest },
		"a short key":  func(h http.Header) int { h.Set("Idempotency-Key", "short"); return http.StatusBadRequest },
	} {
		t.Run(name, func(t *testing.T) {
			h := header.Clone()
			want := change(h)
			if status, answer := post(t, s.URL, body, h); status != want {
				t.Errorf("%d, want %d: %s", status, want, answer)
			}
		})
	}
	if status, _ := post(
		t,
		s.URL,
		`{"jsonrpc":"2.0","id":1,"method":"`+strings.Repeat("x", 1000)+`"}`,
		header,
	); status != 413 {
		t.Errorf("a long request: %d", status)
	}
	if n := f.ran.Load(); n != 2 {
		t.Errorf("ran %d times", n)
	}
}

// An argument that a schema has repeated in a header is what the header says, or the request is refused; an annotation
// that is none makes no difference.
func TestMirrored(t *testing.T) {
	schema := func(header string) jsontext.Value {
		return jsontext.Value(`{"type":"object","properties":{"text":{"type":"string","x-mcp-header":` + header + `}}}`)
	}
	f := start(t, toolbus.Tool{ID: "repeated", Class: toolbus.Pure, Request: schema(`"Text"`)},
		toolbus.Tool{ID: "wrong", Class: toolbus.Pure, Request: schema(`"not a name"`)})
	s := open(t, mcp.New(t.Context(), f.Client, mcp.Options{}))
	c := over(t, s, "2026-07-28", nil)
	if tools, err := c.ListTools(t.Context(), nil); err != nil || len(tools.Tools) < 6 {
		t.Fatalf("%+v, %v", tools, err)
	}
	if got := words(callNamed(t, c, "repeated", `{"text":"a"}`, nil)); got != `{"text":"a"}` { // the client repeats it
		t.Error(got)
	}
	body, header := modern("1", "repeated", `{"text":"a"}`, "")
	for said, want := range map[string]int{"a": http.StatusOK, "b": http.StatusBadRequest, "": http.StatusBadRequest} {
		header.Set("Mcp-Param-Text", said)
		if status, answer := post(t, s.URL, body, header); status != want {
			t.Errorf("%q: %d %s", said, status, answer)
		}
	}
	body, header = modern("1", "wrong", `{"text":"a"}`, "")
	if status, answer := post(t, s.URL, body, header); status != http.StatusOK {
		t.Errorf("%d %s", status, answer)
	}
}
