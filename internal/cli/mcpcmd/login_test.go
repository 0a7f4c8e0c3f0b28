package mcpcmd

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth/oauthtest"
)

// browsing is a terminal whose user opens each address of a login.
type browsing struct {
	strings.Builder
	opened int
}

func (b *browsing) Write(text []byte) (int, error) {
	for word := range strings.FieldsSeq(string(text)) {
		if strings.Contains(word, "/authorize?") {
			b.opened++
			go func() { _ = oauthtest.Browse(word) }()
		}
	}
	return b.Builder.Write(text)
}

// TestLogin imports a server with a login, and compares it with another one.
func TestLogin(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "docs", Version: "1.0.0"}, nil)
	server.AddTool(&sdk.Tool{Name: "read", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	site := &oauthtest.Server{Life: time.Minute, Resource: sdk.NewStreamableHTTPHandler(
		func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true},
	)}
	h := httptest.NewServer(site)
	t.Cleanup(h.Close)
	t.Cleanup(h.CloseClientConnections)
	site.URL = h.URL
	dir, secret := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("canary-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &browsing{}
	env := cli.Env{Stdout: out, Stderr: out}
	imports, approves := Import(env), Approve(env)
	imports.SetArgs([]string{
		"--login", "--client-id", "known", "--client-secret-file", secret, "--tools", dir, h.URL + "/mcp",
	})
	approves.SetArgs([]string{"--login", "--tools", dir})
	imports.SetIn(strings.NewReader("no address\n"))
	approves.SetIn(strings.NewReader(""))
	if err := imports.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := approves.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out.opened != 2 || strings.Contains(out.String(), "canary-secret") {
		t.Errorf("%d logins; it printed %s", out.opened, out.String())
	}
	text, err := os.ReadFile(filepath.Join(dir, ".secrets", "docs", "oauth"))
	if err != nil || !strings.Contains(string(text), `"canary-secret"`) {
		t.Errorf("the file of the login has not the client's secret, %v", err)
	}
}

func TestLoginFlags(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--client-id x https://x.example":                                        "are for --login",
		"--login-port 80 https://x.example":                                      "are for --login",
		"--login npx":                                                            "--login is for one URL",
		"--login --login-port 65536 https://x.example":                           "--login-port is 1 to 65535",
		"--login --client-secret-file x https://x.example":                       "is for --client-id",
		"--login --client-id x --client-secret-file " + empty + " https://x.com": "has no secret",
		"--login --client-id x --client-secret-file / https://x.com":             "is a directory",
	} {
		cmd := Import(cli.Env{Stdout: io.Discard, Stderr: io.Discard})
		cmd.SetArgs(strings.Fields(args))
		cmd.SetErr(io.Discard)
		cmd.SetOut(io.Discard)
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func TestBrowser(t *testing.T) {
	for display, want := range map[string]string{
		"": "", "DISPLAY=": "", "DISPLAY=:0": "xdg-open", "WAYLAND_DISPLAY=w": "xdg-open",
	} {
		if got := browser([]string{"PATH=/bin", display}); got != want && got != "open" {
			t.Errorf("%s: %q", display, got)
		}
	}
}
