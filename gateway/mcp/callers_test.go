package mcp_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/deployment/deploymenttest"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// walled is a bus that asks for tokens, with a door and its tools.
type walled struct {
	*deploymenttest.Deployment
	t   *testing.T
	url string
}

// wall starts a bus with tools.
func wall(t *testing.T, tools *toolbus.Toolset) *walled {
	t.Helper()
	d, err := deploymenttest.Make(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config, err := d.Configure(
		deployment.Shape{Server: "one", Listen: "127.0.0.1:-1", Store: t.TempDir(), SyncAlways: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	srv, err := natsserver.Start(natsserver.Options{ConfigFile: config, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Stop)
	w := &walled{d, t, srv.URL()}
	dispatching := w.connect(toolbus.Options{Topology: toolbus.Topology{SyncAlways: true}, SecretsDir: d.Secrets(),
		Logger: log})
	serving := make(chan string, 1)
	ready := func(instance string) { serving <- instance }
	dispatcher, err := dispatching.Dispatcher(tools, toolbus.DispatcherOptions{AllowAll: true, Ready: ready})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = dispatcher.Run(context.WithoutCancel(t.Context())) }() // until the connection is closed
	<-serving                                                              // it says who may connect
	w.token("executor", "executor://x", auth.Executor, "default")
	executing := w.connect(toolbus.Options{Topology: toolbus.Topology{SyncAlways: true},
		CredentialsFile: d.Credentials("executor"), Logger: log})
	executor, err := executing.Executor(tools, toolbus.ExecutorOptions{Ready: ready, Drain: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = executor.Run(context.WithoutCancel(t.Context())) }() // until the connection is closed
	<-serving
	return w
}

func (w *walled) connect(o toolbus.Options) *toolbus.Conn {
	w.t.Helper()
	conn, err := toolbus.Connect(w.t.Context(), w.url, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(conn.Close)
	return conn
}

// token returns a token, which is also in the file of its name.
func (w *walled) token(name, actor string, role auth.Role, pool string) string {
	w.t.Helper()
	p := auth.Principal{Actor: actor, Role: role, Pool: pool}
	if err := w.Issue(name, "default", p, time.Hour); err != nil {
		w.t.Fatal(err)
	}
	return w.read(name)
}

func (w *walled) read(name string) string {
	w.t.Helper()
	text, err := os.ReadFile(w.Credentials(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// door opens a door over HTTP.
func (w *walled) door(o mcp.Options) *httptest.Server {
	w.t.Helper()
	return open(w.t, w.server(o))
}

// server returns a door for callers with tokens.
func (w *walled) server(o mcp.Options) *mcp.Server {
	w.t.Helper()
	w.token("door", "door://web", auth.Gateway, "")
	conn := w.connect(toolbus.Options{CredentialsFile: w.Credentials("door")})
	client, err := conn.Client(toolbus.ClientOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = client.Close() })
	o.NewClient = conn.Client
	return mcp.New(w.t.Context(), client, o)
}

// with says a token with each request.
type with string

func (w with) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(w))
	return http.DefaultTransport.RoundTrip(r)
}

// as connects a client with a token.
func as(t *testing.T, s *httptest.Server, protocol, token string) *sdk.ClientSession {
	t.Helper()
	return asWith(t, s, protocol, token, nil)
}

// asWith is as with options of the client.
func asWith(t *testing.T, s *httptest.Server, protocol, token string, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	session := join(t, &sdk.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: &http.Client{Transport: with(token)}, MaxRetries: -1,
	}, protocol, o)
	t.Cleanup(func() { _ = session.Close() }) // the server may have gone
	return session
}

// bearing is the header of a request with a token.
func bearing(header http.Header, token string) http.Header {
	h := header.Clone()
	h.Set("Authorization", "Bearer "+token)
	return h
}

// echoing are tools that say whose calls they are, and that wait; slept is told of each that does.
func echoing(t *testing.T) (tools *toolbus.Toolset, slept chan struct{}) {
	t.Helper()
	tools, slept = toolbus.NewToolset(), make(chan struct{}, 100)
	add(t, tools, toolbus.Tool{ID: "whoami", Class: toolbus.Pure, Context: []string{"actor_id"}},
		func(_ context.Context, run *toolbus.Run, _ struct{}) (text, error) {
			by, err := run.Caller()
			return text{by.ActorID}, err
		})
	add(t, tools, toolbus.Tool{ID: "sleep", Class: toolbus.Pure},
		func(ctx context.Context, run *toolbus.Run, _ struct{}) (text, error) {
			slept <- struct{}{}
			<-ctx.Done()
			return text{}, ctx.Err()
		})
	return tools, slept
}

// Each request is of whoever's token it brings, in every protocol, and nobody is let in without one that is good.
func TestTokens(t *testing.T) {
	tools, _ := echoing(t)
	w := wall(t, tools)
	s := w.door(mcp.Options{TaskAfter: time.Millisecond})
	ann, bob := w.token("ann", "agent://ann", auth.Agent, ""), w.token("bob", "agent://bob", auth.Agent, "")
	for _, protocol := range protocols {
		for actor, token := range map[string]string{"agent://ann": ann, "agent://bob": bob} {
			c := as(t, s, protocol, token)
			if tools, err := c.ListTools(t.Context(), nil); err != nil || len(tools.Tools) != 2 {
				t.Errorf("%v: %v", tools, err)
			}
			if got := words(callNamed(t, c, "whoami", `{}`, nil)); got != `{"text":"`+actor+`"}` {
				t.Error(got)
			}
		}
	}
	body, header := modern("1", "whoami", `{}`, "")
	forged := ann[:len(ann)-4] + "AAAA"
	for name, h := range map[string]http.Header{
		"none": header, "junk": bearing(header, "junk"), "forged": bearing(header, forged),
		"twice": {"Authorization": {"Bearer " + ann, "Bearer " + bob}}, "basic": {"Authorization": {"Basic YTpi"}},
	} {
		status, answer := post(t, s.URL, body, h)
		if status != http.StatusUnauthorized || answer == "" {
			t.Errorf("%s: %d %s", name, status, answer)
		}
	}
	executor := w.read("executor")
	if status, answer := post(t, s.URL, body, bearing(header, executor)); status != http.StatusForbidden ||
		!strings.Contains(answer, "the role executor") || !strings.Contains(answer, "credentials issue --actor agent://") {
		t.Errorf("an executor: %d %s", status, answer)
	}
}

// A task is its owner's alone, and a session that of whoever has begun it.
func TestOthers(t *testing.T) {
	tools, _ := echoing(t)
	w := wall(t, tools)
	s := w.door(mcp.Options{TaskAfter: time.Millisecond})
	ann, bob := w.token("ann", "agent://ann", auth.Agent, ""), w.token("bob", "agent://bob", auth.Agent, "")
	hers, his := front(t, s, ann), front(t, s, bob)
	id := ask(t, hers, "tools/call", "sleep", `"name":"sleep","arguments":{}`, knowing).Result.TaskID
	if id == "" {
		t.Fatal("no task")
	}
	for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
		if a := about(t, his, method, id); a.Error.Code != -32602 {
			t.Errorf("%s: %+v", method, a)
		}
	}
	if a := about(t, hers, "tasks/get", id); a.Result.Status != "working" {
		t.Errorf("%+v", a)
	}
	if a := about(t, hers, "tasks/cancel", id); a.Result.ResultType != "complete" {
		t.Errorf("%+v", a)
	}
	c := as(t, s, "2025-11-25", ann)
	status, answer := post(t, s.URL, `{"jsonrpc":"2.0","id":9,"method":"tools/list"}`, bearing(http.Header{
		"Mcp-Session-Id": {c.ID()}, "Mcp-Protocol-Version": {"2025-11-25"}}, bob))
	if status != http.StatusForbidden {
		t.Errorf("another's session: %d %s", status, answer)
	}
}

// front is a server that says a token with each request that it hands on.
func front(t *testing.T, to *httptest.Server, token string) (url string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("Authorization", "Bearer "+token)
		to.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A token that is revoked is worth nothing soon after, also to a client that is connected.
func TestRevoked(t *testing.T) {
	tools, _ := echoing(t)
	w := wall(t, tools)
	s := w.door(mcp.Options{})
	c := as(t, s, "2025-11-25", w.token("ann", "agent://ann", auth.Agent, ""))
	callNamed(t, c, "whoami", `{}`, nil)
	w.token("operator", "user://op", auth.Operator, "")
	operator, err := admin.Connect(t.Context(), w.url, admin.Options{CredentialsFile: w.Credentials("operator")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = operator.Close() }()
	if _, err := operator.RevokeTokens(t.Context(), admin.RevokeRequest{Tenant: "default",
		Actor: "agent://ann"}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); ; {
		_, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "whoami", Arguments: struct{}{}})
		if err != nil {
			if !strings.Contains(err.Error(), "revoked") && !strings.Contains(err.Error(), "Unauthorized") {
				t.Error(err)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatal(errors.New("still good"))
		}
	}
}

// One caller does not take what others need: neither requests nor sessions.
func TestGreedy(t *testing.T) {
	tools, slept := echoing(t)
	w := wall(t, tools)
	s := w.door(mcp.Options{MaxRequests: 6, MaxSessions: 2})
	ann, bob := w.token("ann", "agent://ann", auth.Agent, ""), w.token("bob", "agent://bob", auth.Agent, "")
	first := as(t, s, "2025-11-25", ann)
	client := sdk.NewClient(&sdk.Implementation{Name: "second", Version: "1"}, nil)
	second, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: &http.Client{Transport: with(ann)}, MaxRetries: -1,
	}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err == nil {
		_ = second.Close()
		t.Error("all sessions are hers")
	}
	callNamed(t, as(t, s, "2025-11-25", bob), "whoami", `{}`, nil)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	body, header := modern("1", "sleep", `{}`, "")
	for range 3 {
		wire(t, s.URL, body, bearing(header, ann))
		<-slept
	}
	body, header = modern("1", "whoami", `{}`, "")
	if status, answer := post(t, s.URL, body, bearing(header, ann)); status != http.StatusTooManyRequests {
		t.Errorf("one more: %d %s", status, answer)
	}
	if status, answer := post(t, s.URL, body, bearing(header, bob)); status != http.StatusOK {
		t.Errorf("another caller: %d %s", status, answer)
	}
}

// Nobody gets more of a door by narrowing a token of theirs, for parts of themselves or not.
func TestGreedyParts(t *testing.T) {
	tools, slept := echoing(t)
	w := wall(t, tools)
	s := w.door(mcp.Options{MaxRequests: 6, MaxSessions: 2})
	w.token("ann", "agent://ann", auth.Agent, "")
	conn := w.connect(toolbus.Options{CredentialsFile: w.Credentials("ann")})
	ann, err := conn.Client(toolbus.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ann.Close() }()
	part := func(actor string) string {
		answer, err := ann.NarrowToken(t.Context(), toolbus.NarrowRequest{Actor: actor})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Token
	}
	bob := w.token("bob", "agent://bob", auth.Agent, "")
	first := as(t, s, "2025-11-25", part("agent://ann/1"))
	client := sdk.NewClient(&sdk.Implementation{Name: "second", Version: "1"}, nil)
	second, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
		Endpoint: s.URL, HTTPClient: &http.Client{Transport: with(part("agent://ann/2"))}, MaxRetries: -1,
	}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err == nil {
		_ = second.Close()
		t.Error("all sessions are hers")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	body, header := modern("1", "sleep", `{}`, "")
	for _, actor := range []string{"", "", "agent://ann/3"} {
		wire(t, s.URL, body, bearing(header, part(actor)))
		<-slept
	}
	body, header = modern("1", "whoami", `{}`, "")
	status, answer := post(t, s.URL, body, bearing(header, part("agent://ann/4")))
	if status != http.StatusTooManyRequests {
		t.Errorf("one more: %d %s", status, answer)
	}
	if status, answer := post(t, s.URL, body, bearing(header, bob)); status != http.StatusOK {
		t.Errorf("another caller: %d %s", status, answer)
	}
}
