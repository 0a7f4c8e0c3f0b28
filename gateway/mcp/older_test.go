package mcp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/gateway/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
)

// olderSite is a feed of protocol 2025-11-25 with a URL. It announces over a stream of its own.
type olderSite struct {
	*httptest.Server
	now  atomic.Pointer[sdk.Server]
	door atomic.Pointer[sdk.StreamableHTTPHandler]
}

func newOlderSite(t *testing.T) (*olderSite, *toolbus.Toolset) {
	t.Helper()
	s := &olderSite{}
	s.restart()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.door.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	dir := t.TempDir()
	r, err := importer.Import(t.Context(), "one", client.Server{URL: s.URL},
		importer.Options{Dir: dir, Owner: "@test", Version: "test"})
	if err != nil || r.LeftOut() > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	tools := toolbus.NewToolset()
	if err := tools.AddFolder(dir); err != nil {
		t.Fatal(err)
	}
	return s, tools
}

// restart replaces the server by one that knows no session.
func (s *olderSite) restart() {
	server := newFeed(protocols[1])
	before := s.now.Swap(server)
	s.door.Store(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	if before == nil {
		return
	}
	for session := range before.Sessions() {
		_ = session.Close() // the client may have gone
	}
}

// A client hears of the updates and of the changed lists of a server of 2025 with a URL, also after its restart.
func TestAnnouncedByURL(t *testing.T) {
	site, tools := newOlderSite(t)
	bus := busOf(t, tools)
	door := mcp.New(t.Context(), bus.Client, mcp.Options{})
	ctx, stop := context.WithCancel(t.Context())
	watching := make(chan struct{})
	go func() { defer close(watching); door.Watch(ctx) }()
	t.Cleanup(func() { stop(); <-watching })
	lists := make(chan struct{}, 1000)
	c := reads(t, func(o *sdk.ClientOptions) *sdk.ClientSession {
		o.ResourceListChangedHandler = func(context.Context, *sdk.ResourceListChangedRequest) { lists <- struct{}{} }
		return (&fixture{}).connect(t, door, protocols[0], o)
	})
	if _, err := c.ListResources(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	c.subscribe(1)
	c.hears("feed://1", "feed://2", "feed://1")
	for len(lists) > 0 {
		<-lists
	}
	site.now.Load().AddResource(&sdk.Resource{URI: "feed://9", Name: "news"}, nil)
	next(t, lists)
	site.restart()
	site.CloseClientConnections()
	c.hears("feed://1", "feed://1")
	_ = c.Close() // ends the subscription
}
