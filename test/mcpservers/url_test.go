package mcpservers

import (
	"bufio"
	"context"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// startEverything runs the reference server "everything" with a URL until end is called.
func startEverything(t *testing.T, port string) (end func()) {
	t.Helper()
	cmd := exec.Command(filepath.Join(*servers, "node_modules", ".bin", "mcp-server-everything"), "streamableHttp")
	cmd.Env = append(os.Environ(), "PORT="+port)
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	t.Cleanup(end)
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || !strings.Contains(line, "listening") {
		t.Fatalf("%v: %s", err, line)
	}
	return end
}

// TestEverythingByURL subscribes through the gateway to a resource of a server of 2025 with a URL, and restarts the
// server. It needs the servers of npm, as TestReferenceServers does.
func TestEverythingByURL(t *testing.T) {
	if *servers == "" {
		t.Log("make mcp-servers runs this with the servers")
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(l.Addr().String(), ":")
	_ = l.Close() // the server takes the port
	end := startEverything(t, port)
	i := newImporter(t)
	i.adds("everything", client.Server{URL: "http://127.0.0.1:" + port + "/mcp"})
	door := mcp.New(t.Context(), i.bus().Client, mcp.Options{Search: mcp.Search{Above: -1}})
	t.Cleanup(door.Close)
	web := httptest.NewServer(door.Handler())
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	updated := make(chan string, 1000)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, u *sdk.ResourceUpdatedNotificationRequest) {
			updated <- u.Params.URI
		},
	}).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	const resource = "demo://resource/static/document/features.md"
	if err := session.Subscribe(t.Context(), &sdk.SubscribeParams{URI: resource}); err != nil {
		t.Fatal(err)
	}
	toggle := func() {
		t.Helper()
		res, err := session.CallTool(t.Context(), &sdk.CallToolParams{
			Name: "everything_toggle-subscriber-updates", Arguments: map[string]any{},
		})
		if err != nil || res.IsError {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	toggle() // the server updates the resources at once, and then every 5 s
	for range 2 {
		heardOf(t, updated, resource)
	}
	end()
	startEverything(t, port)
	heardOf(t, updated, resource) // it may have changed meanwhile
	toggle()
	for range 3 {
		heardOf(t, updated, resource)
	}
}

func heardOf(t *testing.T, updated <-chan string, want string) {
	t.Helper()
	select {
	case got := <-updated:
		if got != want {
			t.Errorf("heard of %s", got)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("no update for 30 s")
	}
}
