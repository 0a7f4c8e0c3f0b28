//go:build linux

package importer_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/oauth/oauthtest"
)

// TestImportLogin imports a server that wants a token, with a login, and compares it with another.
func TestImportLogin(t *testing.T) {
	server := sdk.NewServer(&sdk.Implementation{Name: "docs", Version: "1.0.0"}, nil)
	server.AddTool(&sdk.Tool{Name: "read", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	site := &oauthtest.Server{Life: time.Minute, Resource: sdk.NewStreamableHTTPHandler(
		func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{Stateless: true},
	)}
	h := httptest.NewServer(site)
	t.Cleanup(h.Close)
	t.Cleanup(h.CloseClientConnections)
	site.URL = h.URL
	o := importer.Options{Dir: t.TempDir(), Owner: "@test", Version: "test", Transports: []tool.Transport{mcp.Describe()}}
	s := client.Server{URL: h.URL + "/mcp"}
	if _, err := importer.Import(t.Context(), "", s, o); err == nil || !strings.Contains(err.Error(), "with --login") {
		t.Errorf("without a login: %v", err)
	}
	o.Login = func(ctx context.Context, to string) (oauth.Grant, error) {
		c := client.NewTokenClient(to)
		return oauth.Login(ctx, to, oauth.LoginOptions{Client: c, Show: func(address string) {
			go func() { _ = oauthtest.Browse(address) }()
		}})
	}
	both := s
	both.Headers = map[string]string{"authorization": "Bearer x"}
	if _, err := importer.Import(t.Context(), "", both, o); err == nil || !strings.Contains(err.Error(), "either") {
		t.Errorf("with a header of its own: %v", err)
	}
	r, err := importer.Import(t.Context(), "", s, o)
	if err != nil || len(r.Tools) != 1 || r.Tools[0].State != importer.Added {
		t.Fatalf("got %+v, %v", r, err)
	}
	servers, err := mcp.ReadServers(o.Dir)
	file := filepath.Join(".secrets", "docs", "oauth")
	if err != nil || servers["docs"].OAuth != file {
		t.Errorf("the server is %+v, %v", servers["docs"], err)
	}
	info, err := os.Stat(filepath.Join(o.Dir, file))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	first, err := oauth.ReadGrant(filepath.Join(o.Dir, file))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := importer.Import(t.Context(), "docs", s, o); err != nil || r.Tools[0].State != importer.Same {
		t.Errorf("logged in again: %+v, %v", r, err)
	}
	if second, err := oauth.ReadGrant(filepath.Join(o.Dir, file)); err != nil || second.ID() == first.ID() {
		t.Errorf("two logins have one key, %v", err)
	}
	changes, err := importer.Compare(t.Context(), o, nil)
	if err != nil || len(changes) != 1 || changes[0].State != importer.Same {
		t.Errorf("got %+v, %v", changes, err)
	}
	o.Login = nil
	changes, err = importer.Compare(t.Context(), o, nil)
	if err != nil || len(changes) != 1 || !strings.Contains(changes[0].Why, "log in with --login") {
		t.Errorf("got %+v, %v", changes, err)
	}
}
