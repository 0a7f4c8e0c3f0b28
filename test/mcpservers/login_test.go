package mcpservers

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth/oauthtest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// vaultServer is a server with one tool.
func vaultServer() http.Handler {
	server := sdk.NewServer(&sdk.Implementation{Name: "vault", Version: "1.0.0"}, nil)
	server.AddTool(&sdk.Tool{Name: "open", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(
		context.Context, *sdk.CallToolRequest,
	) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "open"}}}, nil
	})
	return sdk.NewStreamableHTTPHandler(
		func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true},
	)
}

// listen serves a handler on the loopback interface, and returns its URL.
func listen(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return s.URL
}

// vault is a bus with two executors, and the server at a URL, where a browser logs in.
func vault(t *testing.T, url string, browse func(address string) error) *bus {
	t.Helper()
	i := newImporter(t)
	i.options.Login = func(ctx context.Context, to string) (oauth.Grant, error) {
		return oauth.Login(ctx, to, oauth.LoginOptions{Client: client.NewTokenClient(to), Show: func(address string) {
			go func() {
				if err := browse(address); err != nil {
					t.Errorf("browser: %v", err)
				}
			}()
		}})
	}
	i.adds("vault", client.Server{URL: url + "/mcp"})
	b := i.bus()
	tools := toolbus.NewToolset()
	if err := tools.AddFolder(i.options.Dir); err != nil {
		t.Fatal(err)
	}
	second, err := toolbus.Connect(t.Context(), b.URL, toolbus.Options{Name: "second"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Close)
	ready, ended := make(chan struct{}), make(chan error, 1)
	executor, err := second.Executor(tools, toolbus.ExecutorOptions{Ready: func(string) { close(ready) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { ended <- executor.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return b
}

// opens calls the tool of the vault.
func opens(t *testing.T, b *bus) *envelope.Response {
	t.Helper()
	return b.asks(toolbus.Call{Tool: "mcp::vault::open", Input: jsontext.Value(`{}`)})
}

// TestLogin calls a server with two executors until its token was renewed three times. Then the grant is revoked.
func TestLogin(t *testing.T) {
	site := &oauthtest.Server{Life: time.Second, Resource: vaultServer()}
	site.URL = listen(t, site)
	b := vault(t, site.URL, oauthtest.Browse)
	for renewals, calls := 0, 0; (renewals < 3 || calls < 50) && !t.Failed(); calls += 4 {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if r := opens(t, b); r.Status != envelope.Success {
					t.Errorf("%s: %v", r.Status, r.Error)
				}
			})
		}
		all.Wait()
		renewals, _ = site.Counts()
	}
	if len(site.Problems()) > 0 {
		t.Errorf("%q", site.Problems())
	}
	site.Revoke()
	revoked(t, b)
	sealed(t, b)
}

// revoked holds that a call after the end of the grant names the command to log in again.
func revoked(t *testing.T, b *bus) {
	t.Helper()
	const command = "`toolbus tools import-mcp --login --name vault URL`"
	for range 2 {
		r := opens(t, b)
		if r.Error == nil || r.Error.Code != "A-AUTH-SERVER_LOGIN" || r.Error.Details.Effect != envelope.EffectNone ||
			!strings.Contains(r.Error.Message, command) {
			t.Errorf("%s: %v", r.Status, r.Error)
		}
	}
}

// sealed checks that the bus has one entry of a login, and that no token in it can be read.
func sealed(t *testing.T, b *bus) {
	t.Helper()
	nc, err := nats.Connect(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), subjects.LoginsStream)
	if err != nil {
		t.Fatal(err)
	}
	msg, err := s.GetLastMsgForSubject(t.Context(), subjects.LoginsAll)
	if err != nil || s.CachedInfo().State.Msgs != 1 || strings.Contains(string(msg.Data), "token") {
		t.Errorf("%v, %d messages", err, s.CachedInfo().State.Msgs)
	}
}
