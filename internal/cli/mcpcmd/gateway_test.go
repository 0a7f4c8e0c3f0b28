package mcpcmd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/toolbustest"
)

// A gateway that is stopped answers its running calls, and does not wait for clients that only listen.
func TestStop(t *testing.T) {
	tools, held, hold := toolbus.NewToolset(), make(chan struct{}, 2), make(chan struct{})
	if err := toolbus.Add(tools, toolbus.Tool{ID: "hold", Class: toolbus.Pure},
		func(context.Context, *toolbus.Run, struct{}) (string, error) {
			held <- struct{}{}
			<-hold
			return "done", nil
		}); err != nil {
		t.Fatal(err)
	}
	bus := toolbustest.Start(t, tools)
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	door := mcp.New(t.Context(), bus.Client, mcp.Options{})
	go func() { served <- serve(ctx, at, door) }()
	answered := make(chan string, 2)
	for _, protocol := range []string{"2026-07-28", "2025-11-25"} {
		client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		c, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{
			Endpoint: "http://" + at.Addr().String() + Path, MaxRetries: 1, // of listening, before a session is lost
		}, &sdk.ClientSessionOptions{ProtocolVersion: protocol})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }() // the gateway may have ended
		go func() {
			res, err := c.CallTool(t.Context(), &sdk.CallToolParams{Name: "hold", Arguments: struct{}{}})
			if err != nil {
				answered <- err.Error()
				return
			}
			answered <- res.Content[0].(*sdk.TextContent).Text
		}()
		<-held
	}
	stop()
	began := time.Now()
	close(hold)
	for range 2 {
		if answer := <-answered; answer != "done" {
			t.Error(answer)
		}
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > stopTime/2 {
		t.Errorf("it took %s to stop", took)
	}
}

// Another path than that of the gateway is answered with its path, and a port in use with what to do.
func TestElsewhere(t *testing.T) {
	bus := toolbustest.Start(t, toolbus.NewToolset())
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- serve(ctx, at, mcp.New(t.Context(), bus.Client, mcp.Options{})) }()
	if text := fetched(t, "http://"+at.Addr().String()+"/", http.StatusNotFound); !strings.Contains(text, " path /mcp\n") {
		t.Error(text)
	}
	cmd := Gateway(cli.Env{Stdout: io.Discard, Stderr: io.Discard}, connecting(bus.URL))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs([]string{"mcp", "--listen", at.Addr().String()})
	if err := cmd.ExecuteContext(ctx); err == nil || !strings.Contains(err.Error(), "--listen 127.0.0.1:0 picks a free") {
		t.Error(err)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// Invalid flags are refused before the gateway connects.
func TestBounds(t *testing.T) {
	never := func(context.Context, auth.Role) (*toolbus.Conn, *toolbus.Client, error) {
		t.Error("it connects")
		return nil, nil, errors.ErrUnsupported
	}
	for _, wrong := range []string{
		"--max-body=0", "--max-body=-1", "--max-requests=0", "--max-sessions=0", "--page-size=0", "--task-after=0",
		"--search-above=0", "--pin=", "--pin=a b",
		"--max-connections=0", "--public-url=example.com", "--authorization-server=http://example.com", "--http-listen=9464",
		"--otlp-endpoint=collector", "--pprof",
	} {
		cmd := Gateway(cli.Env{Stdout: io.Discard, Stderr: io.Discard}, never)
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs([]string{"mcp", wrong})
		if err := cmd.ExecuteContext(t.Context()); !errors.Is(err, cli.ErrUsage) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

// With --http-listen a gateway says that it is ready, and how long requests took, until it is stopped.
func TestGatewayServesMetrics(t *testing.T) {
	bus := toolbustest.Start(t, toolbus.NewToolset())
	said, to := io.Pipe()
	cmd := Gateway(cli.Env{Stdout: to, Stderr: io.Discard}, connecting(bus.URL))
	cmd.SetArgs([]string{"mcp", "--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0"})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		_ = to.Close() // never fails
		served <- err
	}()
	lines, url, at := bufio.NewScanner(said), "", ""
	for at == "" && lines.Scan() {
		if is, ok := strings.CutPrefix(lines.Text(), "MCP clients are served at "); ok {
			url = is
		}
		if is, ok := strings.CutPrefix(lines.Text(), "metrics: "); ok {
			at = is
		}
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	c, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/readyz":  `{"ready":true,"missing":[]}`,
		"/metrics": `mcp_server_operation_duration_seconds_count{mcp_method_name="tools/list"} 1` + "\n",
	} {
		if got := fetched(t, strings.TrimSuffix(at, "/metrics")+path, http.StatusOK); !strings.Contains(got, want) {
			t.Errorf("%s: %q is not in %s", path, want, got)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func fetched(t *testing.T, url string, status int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := new(http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != status {
		t.Fatal(r.Status, err)
	}
	return string(text)
}
