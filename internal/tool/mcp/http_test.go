//go:build linux

package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/tooltest"
)

// site is a server with a URL, which counts the runs of its tool.
type site struct {
	*httptest.Server
	define    func(description string) // of its tool
	ran       atomic.Int64
	cancelled chan struct{}
	spoil     atomic.Pointer[func(w http.ResponseWriter, r *http.Request, call bool) bool] // answers in its place
}

func newSite(t *testing.T, stateless bool) *site {
	t.Helper()
	s := &site{cancelled: make(chan struct{}, 1)}
	server := newServer()
	s.define = func(description string) {
		server.AddTool(&sdk.Tool{Name: "work", Description: description, InputSchema: anything}, s.work)
	}
	s.define("")
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless: stateless, PropagateRequestCancellation: true,
	})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Secret") != "swordfish" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if spoil := s.spoil.Load(); spoil != nil && (*spoil)(w, r, isCall(r)) {
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		for session := range server.Sessions() { // that were forgotten
			_ = session.Close()
		}
	})
	t.Cleanup(s.Server.CloseClientConnections)
	t.Cleanup(s.Server.Close)
	return s
}

// isCall reports whether a request calls a tool. It looks at what is sent, and puts it back.
func isCall(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	var body json.RawMessage
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		return false
	}
	r.Body = readCloser{strings.NewReader(string(body))}
	return strings.Contains(string(body), `"tools/call"`)
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

// work is the tool of a site. The text selects what it does; by default it returns the text.
func (s *site) work(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	var in struct{ Text string }
	if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
		return nil, err
	}
	s.ran.Add(1)
	switch in.Text {
	case "wait":
		_ = notifier{req}.Emit(ctx, envelope.ChunkProgress, jsontext.Value(`"started"`))
		<-ctx.Done()
		s.cancelled <- struct{}{}
		return nil, ctx.Err()
	case "huge":
		in.Text = strings.Repeat("x", 20<<20)
	case "fail":
		return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: "no such file"}}}, nil
	}
	key, _ := req.Params.Meta[envelope.MetaIdempotencyKey].(string)
	return &sdk.CallToolResult{
		Content: []sdk.Content{}, StructuredContent: map[string]any{"text": in.Text, "key": key},
	}, nil
}

func (s *site) peer(t *testing.T) *peer {
	server := client.Server{URL: s.URL, Headers: map[string]string{"X-Secret": "${env:SECRET}"}}
	a := newAdapter(t, mcp.Options{Environ: []string{"SECRET=swordfish"}})
	return &peer{t, a, manifest(t, server, mcp.Endpoint{}), call.SideEffectful}
}

func (p *peer) works(text string) {
	p.Helper()
	res, err := p.call(p.Context(), "work", fmt.Sprintf(`{"text":%q}`, text), &tooltest.Recorder{})
	if err != nil || !strings.Contains(string(res.Output), `"text":"`+text+`"`) {
		p.Errorf("%s: %s, %v", text, res.Output, err)
	}
}

// eras are the two kinds of servers: with sessions, and without.
func eras(t *testing.T, test func(t *testing.T, s *site, p *peer)) {
	for name, stateless := range map[string]bool{"sessions": false, "2026-07-28": true} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, stateless)
			test(t, s, s.peer(t))
		})
	}
}

func TestHTTP(t *testing.T) {
	eras(t, func(t *testing.T, s *site, p *peer) {
		p.works("hello")
		p.wants(p.fails("work", `{"text":"fail"}`), "P-PRECOND-TOOL_ERROR", envelope.EffectUnknown)
		p.wants(p.fails("missing", `{}`), "I-REQ-REQUEST_REFUSED", envelope.EffectNone)
		p.wants(p.fails("work", `{"text":"huge"}`), envelope.CodeOutputLimit, envelope.EffectUnknown)
		p.works("after all that")
	})
}

func TestHTTPCancel(t *testing.T) {
	eras(t, func(t *testing.T, s *site, p *peer) {
		ctx, cancel := context.WithCancel(t.Context())
		sink := &tooltest.Recorder{OnEmit: func(tooltest.Emitted) error { cancel(); return nil }}
		_, err := p.call(ctx, "work", `{"text":"wait"}`, sink)
		p.wants(p.adapter.ClassifyError(p.of("work"), err), envelope.CodeCancelledUnknown, envelope.EffectUnknown)
		select {
		case <-s.cancelled:
		case <-time.After(30 * time.Second):
			t.Error("the server was not told")
		}
	})
}

// TestHTTPFaults checks, for each way in which a request fails, the effect and the number of runs, and that other calls
// work.
func TestHTTPFaults(t *testing.T) {
	status := func(code int) func(http.ResponseWriter, *http.Request, bool) bool {
		return func(w http.ResponseWriter, _ *http.Request, call bool) bool {
			if call {
				w.Header().Set("Retry-After", "3")
				w.WriteHeader(code)
			}
			return call
		}
	}
	answer := func(kind, body string) func(http.ResponseWriter, *http.Request, bool) bool {
		return func(w http.ResponseWriter, _ *http.Request, call bool) bool {
			if call {
				w.Header().Set("Content-Type", kind)
				_, _ = fmt.Fprint(w, body)
			}
			return call
		}
	}
	hangUp := func(w http.ResponseWriter, _ *http.Request, call bool) bool {
		if call {
			panic(http.ErrAbortHandler)
		}
		return call
	}
	for name, test := range map[string]struct {
		spoil  func(http.ResponseWriter, *http.Request, bool) bool
		code   envelope.Code
		effect envelope.Effect
	}{
		"429":          {status(429), "R-CAP-SERVER_BUSY", envelope.EffectNone},
		"401":          {status(401), "A-AUTH-SERVER_FORBIDS", envelope.EffectNone},
		"400":          {status(400), "I-REQ-REQUEST_REFUSED", envelope.EffectNone},
		"500":          {status(500), envelope.CodeToolUnknownState, envelope.EffectUnknown},
		"307":          {status(307), envelope.CodeToolUnknownState, envelope.EffectUnknown},
		"hang up":      {hangUp, envelope.CodeToolUnknownState, envelope.EffectUnknown},
		"no JSON":      {answer("application/json", "{"), envelope.CodeToolProtocol, envelope.EffectUnknown},
		"a page":       {answer("text/html", "<html>"), envelope.CodeToolProtocol, envelope.EffectUnknown},
		"an empty one": {answer("text/event-stream", ""), envelope.CodeToolUnknownState, envelope.EffectUnknown},
		"a deep one": {
			answer("text/event-stream", "data: "+strings.Repeat("[", 9999)), envelope.CodeToolProtocol, envelope.EffectUnknown,
		},
		"a 400 about the request": {
			func(w http.ResponseWriter, _ *http.Request, call bool) bool {
				if call {
					w.WriteHeader(http.StatusBadRequest)
					_, _ = fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no JSON"}}`)
				}
				return call
			}, "I-REQ-REQUEST_REFUSED", envelope.EffectNone,
		},
		"another's": {
			answer("application/json", `{"jsonrpc":"2.0","id":4711,"result":{}}`), envelope.CodeTimeoutUnknown,
			envelope.EffectUnknown,
		},
	} {
		t.Run(name, func(t *testing.T) {
			eras(t, func(t *testing.T, s *site, p *peer) {
				p.works("before")
				s.spoil.Store(&test.spoil)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				_, err := p.call(ctx, "work", `{"text":"x"}`, &tooltest.Recorder{})
				got := p.adapter.ClassifyError(p.of("work"), err)
				p.wants(got, test.code, test.effect)
				if name == "429" && got.Details.RetryAfterMS != 3000 {
					t.Errorf("again in %d ms", got.Details.RetryAfterMS)
				}
				s.spoil.Store(nil)
				p.works("after")
				if n := s.ran.Load(); n != 2 {
					t.Errorf("the tool ran %d times, want 2", n)
				}
			})
		})
	}
}

// TestHTTPAway calls a server that is not there, and one whose credentials are not what it wants.
func TestHTTPAway(t *testing.T) {
	s := newSite(t, true)
	p := s.peer(t)
	s.Close()
	p.wants(p.fails("work", `{"text":"x"}`), envelope.CodeUnavailable, envelope.EffectNone)
	if err := p.adapter.Validate(p.of("work")); err != nil {
		t.Error(err)
	}
	without := newAdapter(t, mcp.Options{})
	if err := without.Validate(p.of("work")); err == nil || !strings.Contains(err.Error(), "SECRET") {
		t.Errorf("without its secret: %v", err)
	}
}

// TestHTTPLeft calls a server that has gone after it has answered a call: nothing of the next one has reached it.
func TestHTTPLeft(t *testing.T) {
	eras(t, func(t *testing.T, s *site, p *peer) {
		s.Config.SetKeepAlivesEnabled(false) // so that each request needs a connection of its own
		p.works("before")
		if err := s.Listener.Close(); err != nil {
			t.Fatal(err)
		}
		got := p.fails("work", `{"text":"x"}`)
		p.wants(got, envelope.CodeUnavailable, envelope.EffectNone)
		if !strings.Contains(got.Cause, "refused") {
			t.Errorf("cause %q", got.Cause)
		}
	})
}

// TestHTTPForgotten loses the session, as at a restart of the server: the next call has a new one, whatever the server
// says about it.
func TestHTTPForgotten(t *testing.T) {
	const said = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32600,"message":"Bad Request: no valid session ID"}}`
	for name, test := range map[string]struct {
		status int
		body   string
	}{
		"no body":          {404, ""},
		"text":             {404, "Session not found"},
		"no id":            {404, fmt.Sprintf(said, "null")},
		"another id":       {404, fmt.Sprintf(said, `"server-error"`)},
		"the request's id": {404, fmt.Sprintf(said, "3")},
		"400":              {400, fmt.Sprintf(said, "null")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, false)
			p := s.peer(t)
			p.works("before")
			var once atomic.Bool
			forget := func(w http.ResponseWriter, _ *http.Request, call bool) bool {
				first := call && !once.Swap(true)
				if first {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(test.status)
					_, _ = fmt.Fprint(w, test.body)
				}
				return first
			}
			s.spoil.Store(&forget)
			p.works("after")
			if n := s.ran.Load(); n != 2 {
				t.Errorf("the tool ran %d times, want 2", n)
			}
		})
	}
}

// TestHTTPCut loses the connection after every number of bytes of an answer. The effect is unknown, and the tool runs
// once per call.
func TestHTTPCut(t *testing.T) {
	s := newSite(t, true)
	p := s.peer(t)
	p.works("before")
	const answer = `{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":{"text":"cut"}}}`
	head := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
	cut, ran := 0, 0
	spoil := func(w http.ResponseWriter, r *http.Request, call bool) bool {
		if !call {
			return false
		}
		ran++
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return true
		}
		body := fmt.Sprintf(answer, 1)
		text := fmt.Sprintf(head, len(body)) + body
		_, _ = conn.Write([]byte(text[:cut]))
		_ = conn.Close()
		return true
	}
	s.spoil.Store(&spoil)
	for ; cut < len(head)+len(answer)-4; cut += 3 {
		_, err := p.call(t.Context(), "work", `{"text":"x"}`, &tooltest.Recorder{})
		if err == nil {
			t.Fatalf("after %d bytes it succeeded", cut)
		}
		p.wants(p.adapter.ClassifyError(p.of("work"), err), envelope.CodeToolUnknownState, envelope.EffectUnknown)
		if ran != cut/3+1 {
			t.Fatalf("after %d bytes it was asked %d times", cut, ran)
		}
	}
	s.spoil.Store(nil)
	p.works("after")
}
